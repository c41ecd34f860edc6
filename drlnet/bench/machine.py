"""The machine that measures: its cores, how far apart they are, and how long threads wait for one.

A host may move a virtual machine's cores at any time, and whatever passes bytes from one to the
other then takes three or four times as long.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from drlnet.bench.measure import core_round_trip_ns

_MOVED = 1.5  # times the least: more than other users of the machine do to the best of many


@dataclass(frozen=True)
class Cores:
    """One core for the server and one for the client; none where there is only one."""

    server: int | None
    client: int | None
    count: int

    @staticmethod
    def usable() -> Cores:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            return Cores(None, None, len(cores))
        return Cores(cores[0], cores[1], len(cores))


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """The calling thread on that core; where it was, when it is None."""
    if core is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin_process(pid: int, core: int | None) -> None:
    """Every thread of that process on one core; threads that they start later follow."""
    if core is None:
        return
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


@dataclass(frozen=True)
class Look:
    """One round trip of a cache line. at_s: since the first look of all."""

    before: str  # what was measured next
    ns: int
    at_s: float


@dataclass
class CoreDistance:
    """What was seen of it, round by round."""

    rounds: list[list[Look]] = field(default_factory=list)
    _began_s: float | None = None

    def begin_round(self) -> None:
        """What is looked at from now on belongs to another round."""
        self.rounds.append([])

    def look(self, cores: Cores, before: str) -> None:
        """Takes a millisecond, while nothing else may spin on these cores; nothing of one core."""
        if cores.server is None or cores.client is None:
            return
        now_s = time.monotonic()
        self._began_s = self._began_s or now_s
        with pinned(cores.client):
            ns = core_round_trip_ns(cores.server)
        if ns is not None:
            self.add(before, ns, round(now_s - self._began_s, 3))

    def add(self, before: str, ns: int, at_s: float) -> None:
        """Keeps a look in the round that is measured."""
        if not self.rounds:
            self.begin_round()
        self.rounds[-1].append(Look(before, ns, at_s))

    def in_words(self) -> str:
        """One line for below the tables; empty when nothing was seen."""
        seen = [look.ns for looks in self.rounds for look in looks]
        if not seen:
            return ""
        low, high = min(seen), max(seen)
        if high <= _MOVED * low:
            return f"Between the cores a cache line takes {median(seen):.0f} ns there and back."
        return (
            f"Between the cores a cache line took from {low} to {high} ns there and back, as where "
            "a host moves virtual ones. What passes bytes between processes goes by that: rounds "
            "do not compare with each other, and ratios are taken within rounds."
        )

    def to_dict(self) -> dict[str, Any]:
        """In words, and every look by round."""
        by_round = [[asdict(look) for look in looks] for looks in self.rounds]
        return {"in_words": self.in_words(), "by_round": by_round}


@contextmanager
def run_delay(pid: int | None = None) -> Iterator[Callable[[], float]]:
    """Reads for how long, in us, the threads of that process could have run and no core took them.

    None: the calling thread alone. Source: the second field of /proc/PID/task/TID/schedstat (kernel
    documentation, sched-stats). Errors: OSError where the kernel keeps no such account
    (CONFIG_SCHED_INFO), or the process is gone.
    """
    tasks = [Path("/proc/thread-self")] if pid is None else Path(f"/proc/{pid}/task").iterdir()
    files = [os.open(task / "schedstat", os.O_RDONLY) for task in tasks]
    try:
        yield lambda: sum(int(os.pread(file, 64, 0).split()[1]) for file in files) / 1e3
    finally:
        for file in files:
            os.close(file)
