"""The role of an actor: stores one step after the other, and says how long each took."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

import numpy as np

from drlnet import native
from drlnet.bench.filling import writer
from drlnet.bench.paper.access import join_meeting, open_experience, reached
from drlnet.bench.paper.phases import CHUNK_S, Diary, Say
from drlnet.bench.paper.workloads import SHAPES, Workload
from drlnet.launch.signals import Stop


def act(
    address: str,
    poll: str,
    workload: Workload,
    stop: Stop,
    say: Say,
    note: Callable[[str], None],
    for_s: float = float("inf"),
) -> None:
    """Appends until stopped, or for so long. One request each: a step and its item.

    note: told that the server is waited for.
    """
    client = reached(address, "actor", poll, note)
    shape = SHAPES[workload.shape]
    spec = shape.spec()
    appending = writer(client, open_experience(client, spec), spec, 1, flush_rows=2)
    row = np.ones(shape.row_bytes, np.uint8)
    interval_s = 1 / workload.rate if workload.rate else 0.0
    # At a fixed rate a chunk ends with its last append: to sleep on to an end in time costs one.
    most = max(1, round(CHUNK_S * workload.rate)) if workload.rate else 100_000
    latencies, longest_s = np.empty(most, np.uint64), CHUNK_S + most * interval_s
    join_meeting(client, workload.actors)
    end = time.monotonic() + for_s
    with closing(Diary(say)) as diary:
        while not stop.is_set() and time.monotonic() < end:
            start_s = time.monotonic()
            count = native.measure_appends(appending, row, latencies, longest_s, interval_s)
            diary.add(start_s, latencies[:count])
