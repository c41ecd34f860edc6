"""The engine of every suite: subjects take turns, round by round, and leave their latencies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.machine import CoreDistance, Cores
from drlnet.bench.processes import Stopped, WorkerFailed
from drlnet.bench.records import Key, Record
from drlnet.errors import DrlnetError
from drlnet.launch.signals import Stop

COPY = "memcpy (floor)"

Timed = Callable[[NDArray[np.uint64], float], int]
"""A timed loop: fills latencies in nanoseconds for at most that many seconds, returns how many."""
Note = Callable[[str], None]


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


@dataclass(frozen=True)
class Effort:
    """How long an operation is measured in a round: this many calls, or until the time is up."""

    calls: int = 5000
    budget_s: float = 0.5
    warm_up: int = 200

    def latencies_us(self, timed: Timed) -> NDArray[np.float64]:
        """What the loop measures, after it has warmed up."""
        timed(np.empty(self.warm_up, np.uint64), self.budget_s / 10)
        latencies_ns = np.empty(self.calls, np.uint64)
        count = timed(latencies_ns, self.budget_s)
        return latencies_ns[:count] / 1e3


QUICK = Effort(calls=500, budget_s=0.1, warm_up=50)


def timed_calls(
    prepare: Callable[[], tuple[Any, ...]],
    call: Callable[..., object],
    latencies_ns: NDArray[np.uint64],
    budget_s: float,
) -> int:
    """The loop of native/measure/loop.h: arguments are made before each call, and not timed."""
    end = time.perf_counter_ns() + round(budget_s * 1e9)
    for index in range(len(latencies_ns)):
        arguments = prepare()
        before = time.perf_counter_ns()
        if before >= end:
            return index
        call(*arguments)
        latencies_ns[index] = time.perf_counter_ns() - before
    return len(latencies_ns)


@dataclass(frozen=True)
class Course:
    """How a suite goes: this many rounds, unless `stop` is set before. note: told of each turn."""

    stop: Stop
    rounds: int
    effort: Effort = field(default_factory=Effort)
    note: Note = lambda line: None


@dataclass
class Results:
    """What was measured, round by round, and why what was not could not be."""

    rounds: dict[Key, dict[int, list[float]]] = field(default_factory=dict)
    """Latencies in us, by the number of the round."""
    number: int = 1  # of the round that is measured
    cores: Cores = field(default_factory=Cores.usable)
    distance: CoreDistance = field(default_factory=CoreDistance)
    unavailable: dict[str, str] = field(default_factory=dict)  # subject: cause
    includes: dict[str, str] = field(default_factory=dict)  # what a peer's calls do, by subject
    operation_bytes: dict[Key, int] = field(default_factory=dict)
    threads: dict[Key, int] = field(default_factory=dict)
    interrupted: bool = False

    def take_turns(
        self,
        course: Course,
        subjects: Sequence[T],
        turn: Callable[[T], object],
        *,
        what: str = "",
        behind: Callable[[list[T]], object] | None = None,
    ) -> None:
        """Calls turn(subject) for all in each round, the order shifted by one from round to round.

        A subject that fails is left out from there on and its cause kept, with what was measured
        before. behind: called with those that are left behind each round; it is left out like one,
        as "floors". Raises Stopped once it is time to.
        """
        left = list(subjects)
        for number in range(1, course.rounds + 1):
            self.number = number
            self.distance.begin_round()
            shift = (number - 1) % max(1, len(left))
            for subject in [*left[shift:], *left[:shift]]:
                course.note(f"{what}round {number} of {course.rounds}: {subject.name}")
                self.distance.look(self.cores, f"{what}{subject.name}")
                try:
                    turn(subject)
                except (DrlnetError, WorkerFailed) as error:
                    left.remove(subject)
                    self._leave_out(course, subject.name, error)
                if course.stop.is_set():
                    raise Stopped
            if behind is not None and left:
                try:
                    behind(left)
                except (DrlnetError, WorkerFailed) as error:
                    behind = None
                    self._leave_out(course, f"{what}floors", error)

    def _leave_out(self, course: Course, name: str, error: Exception) -> None:
        since = f"from round {self.number} on: " if self.number > 1 else ""
        self.unavailable[name] = cause = f"{since}{in_words(error)}"
        course.note(f"{name}: skipped: {cause}")

    @contextmanager
    def until_stopped(self) -> Iterator[None]:
        """What was measured in the block before it was stopped counts; then it is marked."""
        try:
            yield
        except (Stopped, KeyboardInterrupt):
            self.interrupted = True

    def keep(
        self,
        subject: str,
        op: str,
        workload: str,
        latencies_us: Iterable[float],
        *,
        operation_bytes: int | None = None,
        threads: int = 0,
    ) -> None:
        """Adds one round of one operation, unless nothing was measured.

        operation_bytes: the payload, of what moves bytes. threads: that poll meanwhile.
        """
        key, latencies = (subject, op, workload), list(latencies_us)
        if latencies:
            self.rounds.setdefault(key, {})[self.number] = latencies
            self.threads[key] = threads
            if operation_bytes is not None:
                self.operation_bytes[key] = operation_bytes

    def records(
        self,
        suite: str,
        ops: Sequence[str],
        *,
        workloads_first: bool = False,
        subjects: Callable[[str], Any] | None = None,
    ) -> list[Record]:
        """What was measured, by operation as in `ops`, then by workload, or the other way round.

        Workloads, and within them subjects, as they were first measured. subjects: what sorts them
        instead.
        """
        seen = list(dict.fromkeys(subject for subject, _, _ in self.rounds))
        workloads = list(dict.fromkeys(workload for _, _, workload in self.rounds))

        def place(key: Key) -> tuple[int, int, Any]:
            subject, op, workload = key
            outer, inner = ops.index(op), workloads.index(workload)
            if workloads_first:
                outer, inner = inner, outer
            return outer, inner, (subjects or seen.index)(subject)

        return [
            Record.of(
                suite, subject, workload, op, self.rounds[subject, op, workload],
                operation_bytes=self.operation_bytes.get((subject, op, workload)),
                oversubscribed=self.threads[subject, op, workload] > self.cores.count,
            )
            for subject, op, workload in sorted(self.rounds, key=place)
        ]  # fmt: skip

    def derived(self, **more: Any) -> dict[str, Any]:
        """What stands in the JSON behind the records: `more`, and what could not be measured."""
        return {**more, "unavailable": self.unavailable, "interrupted": self.interrupted}


def in_words(error: Exception) -> str:
    """An error's cause, with its remedy on a line of its own where it has one."""
    if isinstance(error, DrlnetError) and error.remedy:
        return f"{error.cause}\n  try: {error.remedy}"
    return str(error)
