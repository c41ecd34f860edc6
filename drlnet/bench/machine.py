"""The machine that measures: its cores, how far apart they are, and how long threads wait for one.

A host may move a virtual machine's cores at any time: a cache line's round trip between two that
share a cache takes a third or a quarter of that between two that do not, and whatever passes bytes
from one process to another follows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
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
        middle = (low * high) ** 0.5
        seen_near = [{look.ns < middle for look in looks} for looks in self.rounds]
        near, far, both = (seen_near.count(kind) for kind in ({True}, {False}, {True, False}))
        words = (
            f"Between the cores a cache line took from {low} to {high} ns there and back, as where "
            f"a host moves virtual ones (rounds: {near} near, {far} far, {both} both). "
            "What passes bytes between processes goes by that: rounds do not compare with each "
            "other, and ratios are taken within rounds"
        )
        apart_s = max(looks[-1].at_s - looks[0].at_s for looks in self.rounds if looks)
        if apart_s >= 1:
            words += f", whose parts begin up to {apart_s:.0f} s apart"
        return f"{words}."

    def to_dict(self) -> dict[str, Any]:
        """In words, and every look by round."""
        by_round = [[asdict(look) for look in looks] for looks in self.rounds]
        return {"in_words": self.in_words(), "by_round": by_round}


class RunDelay:
    """Time for which the threads of a process could have run and no core took them.

    Source: the second field of /proc/PID/task/TID/schedstat (kernel documentation, sched-stats).
    The threads are those that exist when it is made. Errors: OSError where the kernel keeps no
    such account (CONFIG_SCHED_INFO), or the process is gone.
    """

    def __init__(self, pid: int | None = None) -> None:
        """Reads it for all threads of `pid`; None: for the calling thread alone."""
        threads = (
            [Path("/proc/thread-self")]
            if pid is None
            else list(Path(f"/proc/{pid}/task").iterdir())
        )
        self._files = [os.open(thread / "schedstat", os.O_RDONLY) for thread in threads]

    def __enter__(self) -> RunDelay:
        return self

    def __exit__(self, *raised: object) -> None:
        for file in self._files:
            os.close(file)

    def total_us(self) -> float:
        """Since the threads began."""
        return sum(int(os.pread(file, 64, 0).split()[1]) for file in self._files) / 1e3
