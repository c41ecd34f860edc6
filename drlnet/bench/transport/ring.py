"""The floor: a bare ring of messages in shared memory between two processes, both spinning."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from drlnet import native
from drlnet.bench.cores import Cores, pin_process, pinned
from drlnet.bench.rounds import Effort
from drlnet.bench.transport.cells import BATCH, BATCH_ROWS, FRAME_BYTES, PAYLOADS, Measured
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Supervisor

_READY_DEADLINE_S = 30.0
_LOOK_S = 0.05  # how often the echo looks whether it is to stop
_COPY_ROWS = 4096


def echo(path: str, stop: Stop, ready: Callable[[], None]) -> int:
    """Sends back what comes through the ring in that file, until stopped: how many messages."""
    with _opened(path) as file:
        ring = native.RingPair(file)
    ready()
    count = 0
    while not stop.is_set():
        count += ring.echo(_LOOK_S)
    return count


@contextmanager
def _opened(path: str) -> Iterator[int]:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)


def measure_ring(stop: Stop, effort: Effort, cores: Cores) -> list[Measured]:
    """Round trips of every payload, and the memory's own speed for a batch."""
    measured = []
    file = os.memfd_create("drlnet-ring", os.MFD_CLOEXEC)
    try:
        os.ftruncate(file, native.RingPair.file_bytes())
        ring = native.RingPair(file)
        with Supervisor(stop) as group:
            # Its name for another process: it lives no longer than ours.
            path = f"/proc/{os.getpid()}/fd/{file}"
            child = group.start("ring-echo", ["bench", "ring-echo", path])
            group.wait_for_line(child, "ready", _READY_DEADLINE_S)
            pin_process(child.pid, cores.server)
            with pinned(cores.client):
                for payload, size in PAYLOADS.items():
                    times = effort.latencies_us(partial(ring.pings, size))
                    measured.append(Measured("ping", payload, times))
    finally:
        os.close(file)
    return measured


def measure_copy(effort: Effort, cores: Cores) -> Measured:
    """What no network can beat: a batch's rows copied from a table of frames into one place."""
    with pinned(cores.client):
        copies = partial(native.measure_copies, FRAME_BYTES, _COPY_ROWS, BATCH_ROWS)
        return Measured("sampled bytes", BATCH, effort.latencies_us(copies))
