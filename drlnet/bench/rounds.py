"""How every benchmark times: subjects take turns, round by round, and leave their latencies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.distance import CoreDistance

if TYPE_CHECKING:
    from drlnet.bench.records import Key

COPY = "memcpy (floor)"

Timed = Callable[[NDArray[np.uint64], float], int]
"""A timed loop: fills latencies in nanoseconds for at most so many seconds, returns how many."""
T = TypeVar("T")


@dataclass(frozen=True)
class Effort:
    """How long one operation of one round is measured: so many calls, or until the time is up."""

    calls: int = 5000
    budget_s: float = 0.5
    warm_up: int = 200

    def latencies_us(self, timed: Timed) -> NDArray[np.float64]:
        """What the loop measures, after it has warmed up."""
        timed(np.empty(self.warm_up, np.uint64), self.budget_s / 10)
        latencies_ns = np.empty(self.calls, np.uint64)
        count = timed(latencies_ns, self.budget_s)
        return latencies_ns[:count] / 1e3


def timed_calls(
    prepare: Callable[[], tuple[Any, ...]],
    call: Callable[..., object],
    latencies_ns: NDArray[np.uint64],
    budget_s: float,
) -> int:
    """As native/src/measure/loop.h: arguments are made before each call, and not timed."""
    end = time.perf_counter_ns() + round(budget_s * 1e9)
    for index in range(len(latencies_ns)):
        arguments = prepare()
        before = time.perf_counter_ns()
        if before >= end:
            return index
        call(*arguments)
        latencies_ns[index] = time.perf_counter_ns() - before
    return len(latencies_ns)


QUICK = Effort(calls=500, budget_s=0.1, warm_up=50)


def orders(subjects: Sequence[T], rounds: int) -> Iterator[list[T]]:
    """The subjects in the order of each round, shifted by one from round to round.

    A subject that is taken out of the sequence meanwhile is missing from the next round on.
    """
    for index in range(rounds):
        shift = index % max(1, len(subjects))
        yield [*subjects[shift:], *subjects[:shift]]


@dataclass
class Results:
    """What was measured, round by round, and why what was not could not be."""

    rounds: dict[Key, dict[int, list[float]]] = field(default_factory=dict)
    """Latencies in us, by the number of the round."""
    number: int = 1  # of the round that is measured
    distance: CoreDistance = field(default_factory=CoreDistance)
    unavailable: dict[str, str] = field(default_factory=dict)  # subject: cause
    interrupted: bool = False

    def begin(self, number: int) -> None:
        """The round of that number."""
        self.number = number
        self.distance.begin_round()

    def keep(self, subject: str, op: str, workload: str, latencies_us: Iterable[float]) -> None:
        """Adds one round of one operation."""
        self.rounds.setdefault((subject, op, workload), {})[self.number] = list(latencies_us)

    def leave_out(self, subject: str, cause: str, note: Callable[[str], None]) -> None:
        """What was measured of it stays."""
        self.unavailable[subject] = cause
        note(f"{subject}: skipped: {cause}")

    def in_order(self, ops: Sequence[str], *, workloads_first: bool = False) -> list[Key]:
        """What was measured, by operation as in `ops`, then by workload, or the other way round.

        Workloads, and subjects within them, as they were first measured.
        """
        subjects = list(dict.fromkeys(subject for subject, _, _ in self.rounds))
        workloads = list(dict.fromkeys(workload for _, _, workload in self.rounds))

        def place(key: Key) -> tuple[int, int, int]:
            subject, op, workload = key
            outer, inner = ops.index(op), workloads.index(workload)
            if workloads_first:
                outer, inner = inner, outer
            return outer, inner, subjects.index(subject)

        return sorted(self.rounds, key=place)
