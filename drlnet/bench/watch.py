"""What watching costs: the throughput of a server under load, with `drlnet stats` and without.

The load is an actor's and a learner's, without their computing: one process appends rows and
samples batches in turn, as fast as the server answers. Sides alternate every second, so that a
machine whose speed drifts slows both: `drlnet stats` is stopped (SIGSTOP) for one, and then sends
nothing and takes no core.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from statistics import fmean, median

import numpy as np

from drlnet.bench.engine import Results
from drlnet.bench.processes import IMPORT_S, Stopped, served
from drlnet.bench.records import Record, Records
from drlnet.bench.shapes import fill
from drlnet.client import Client, Column, Item, View
from drlnet.launch.process import Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Supervisor

ALONE, WATCHED = "not watched", "watched"
_BATCH, _ROWS, _STREAMS = 128, 50_000, 8
_CYCLE_APPENDS = 8  # before a sample and an update of its priorities
_SLICE_S = 1.0


class _Load:
    """An actor's and a learner's requests, in turn, over one table."""

    def __init__(self, address: str) -> None:
        self._client = Client(address, name="load")
        self._table = self._client.table(
            "watch",
            columns={"obs": Column("float32", (64,)), "reward": Column("float32")},
            item=Item({"obs": View("obs"), "reward": View("reward")}),
            capacity=_ROWS,
        )
        obs, reward = np.ones((_STREAMS, 64), np.float32), np.ones(_STREAMS, np.float32)
        self._columns = {"obs": obs, "reward": reward}
        # Once round the ring: the memory of rows that were never written is not there yet.
        fill(self._table, self._columns, _ROWS)
        self._writer = self._table.writer(_STREAMS)
        self._goes_on = np.zeros(_STREAMS, np.bool_)
        self._first = ~self._goes_on

    def latencies_us(self, seconds: float) -> list[float]:
        """The cycles that this much time is enough for."""
        found, now = [], time.perf_counter()
        end = now + seconds
        while now < end:
            for _ in range(_CYCLE_APPENDS):
                steps = self._writer.append(self._columns, self._first, self._goes_on)
                self._writer.add_items(np.arange(_STREAMS), steps)
                self._first = self._goes_on
            batch = self._table.sample(_BATCH)
            self._table.update_priorities(batch.keys, np.ones(_BATCH, np.float32))
            begun, now = now, time.perf_counter()
            found.append((now - begun) * 1e6)
        return found

    def close(self) -> None:
        """Ends the session."""
        self._writer.release()
        self._client.close()


@contextmanager
def _watcher(stop: Stop, address: str, interval_s: float) -> Iterator[Process]:
    """`drlnet stats` beside the block, from its first line on."""
    args = ("stats", "--server", address, "--json", "--follow", "--interval", f"{interval_s:g}")
    with Supervisor(stop) as group:
        watcher = group.start("stats", list(args))
        while not watcher.last_object and watcher.returncode is None:
            group.wait(IMPORT_S)
            if stop.is_set():
                raise Stopped
        try:
            yield watcher
        finally:
            watcher.signal(signal.SIGCONT)  # a stopped process would not heed its end


def measure_watching(
    stop: Stop,
    *,
    pairs: int = 5,
    seconds: float = 5.0,
    interval_s: float = 0.5,
    report: Callable[[float, float], None] = lambda alone, watched: None,
) -> Records[Record]:
    """A record per side; `more` has the ratio of each pair, and their median.

    seconds: of each side of a pair, in slices that take turns. report: told of the cycles per
    second of each pair, not watched and watched. Stops early when told to.
    """
    results = Results()
    ratios: list[float] = []
    workload = f"{_CYCLE_APPENDS} appends, a batch of {_BATCH}, its update; every {interval_s:g} s"
    with (
        results.until_stopped(),
        served(stop, ["udp://127.0.0.1:0"], "adaptive") as (_, (address,)),
        closing(_Load(address)) as load,
        _watcher(stop, address, interval_s) as watcher,
    ):
        for results.number in range(1, pairs + 1):
            sides = _pair(load, watcher, seconds, results.number)
            if stop.is_set():
                raise Stopped
            for side, latencies in sides.items():
                results.keep(side, "cycle", workload, latencies)
            # The time that the cycles really took: a slice ends with a whole one.
            alone, watched = (1e6 / fmean(latencies) for latencies in sides.values())
            ratios.append(watched / alone)
            report(alone, watched)
    more = {
        "ratios": ratios,
        "ratio": median(ratios) if ratios else None,
        "interrupted": results.interrupted,
    }
    return Records(results.records("watch", ["cycle"]), more)


def _pair(load: _Load, watcher: Process, seconds: float, turn: int) -> dict[str, list[float]]:
    """The latencies of both sides, slice by slice, in an order that turns round each time."""
    found: dict[str, list[float]] = {ALONE: [], WATCHED: []}
    slice_s = min(_SLICE_S, seconds)
    for index in range(turn, turn + round(seconds / slice_s)):
        for side in (ALONE, WATCHED)[:: -1 if index % 2 else 1]:
            watcher.signal(signal.SIGCONT if side == WATCHED else signal.SIGSTOP)
            found[side] += load.latencies_us(slice_s)
            watcher.read("stdout")  # with a full pipe it would stop watching
    return found
