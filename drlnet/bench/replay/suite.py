"""Replay memories in turns: ours over each transport, and peers, on the same work.

Each memory is used by a process of its own, which may die alone. Peers are filled once for a work
and stay, idle, between their turns, since some take minutes to fill; our servers, which poll, are
started anew for each turn, so that they take no core from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from drlnet.bench import peers
from drlnet.bench.engine import Effort, Note
from drlnet.bench.engine import Results as Rounds
from drlnet.bench.processes import Worker, WorkerFailed, Workers
from drlnet.bench.replay.learner import (
    ALONE,
    BATCH,
    BESIDE,
    CYCLE,
    INSERT,
    PREFETCHED,
    SAMPLE,
    Client,
    Learner,
    measure_floors,
)
from drlnet.bench.replay.memory import BY, Memory
from drlnet.bench.replay.ours import Ours
from drlnet.bench.shapes import FRAMES, FRAMES_3, SMALL_STEP, WHOLE, Shape
from drlnet.bench.transport.suite import Subject as Link
from drlnet.bench.transport.suite import subjects_of as links_of
from drlnet.launch.signals import Stop

SUITE = "replay"
CLIENTS = (0, 1, 2)
SHARE = 0.25  # each inserting client's rate at most, of what its subject inserts alone
OPS = (*ALONE, PREFETCHED)
BULK = (SAMPLE, CYCLE, PREFETCHED)  # what moves a batch
_LEAVE_S = 60.0  # to store what is under way


@dataclass(frozen=True)
class Subject:
    """A memory over one shape.

    find: called in the learner's process, so it must pickle; imports what makes memories.
    resident: it may stay, filled, while others are measured; one that polls may not.
    link: of ours.
    """

    name: str
    find: Callable[[], Callable[[Shape], Memory]]
    shape: Shape
    resident: bool
    link: Link | None = None


@dataclass(frozen=True)
class Work:
    """What all do: the records' workload, whose items are alike whatever holds them.

    forms: how our tables hold it, the first being the usual one; peers hold whole transitions.
    beside_per_second: transitions that two inserting clients together do not exceed.
    """

    name: str
    forms: dict[str, Shape]
    beside_per_second: float


WORKS = {
    "small": Work("small", {"": SMALL_STEP}, 1.25e6),
    "atari": Work("atari", {"frames": FRAMES, "frames, 3-step": FRAMES_3, "rows": WHOLE}, 75e3),
}
TRANSPORTS = ("dpdk:local", "udp")


def named(subject: str, form: str) -> str:
    """A subject of ours, or its floor, in that form."""
    return f"{subject}, {form}" if form else subject


def _ours(link: Link) -> Callable[[Shape], Memory]:
    return partial(Ours, link.listen, link.poll)


def subjects_of(
    work: Work, transports: Sequence[str] | None, against: Sequence[str] | None
) -> list[Subject]:
    """Ours over every transport, what blocks in the usual form alone; then peers. None: all.

    Raises ConfigError for an unknown name.
    """
    links = links_of(TRANSPORTS if transports is None else transports)
    # What blocks last, so that the first is what polls over the first transport named.
    kinds = {link: link.name.removesuffix(f" {link.poll}") for link in links}
    links = [link for link in links if transports is None or kinds[link] in transports]
    links.sort(key=lambda link: (link.poll == "block", kinds[link] == "udp"))
    usual = next(iter(work.forms.values()))
    ours = [
        Subject(named(link.name, form), partial(_ours, link), shape, resident=False, link=link)
        for form, shape in work.forms.items()
        for link in links
        if shape == usual or link.poll == "busy"
    ]
    return ours + [
        Subject(name, partial(peers.find_memory, name), usual, resident=True)
        for name in peers.named(peers.MEMORIES, against)
    ]


@dataclass
class Results(Rounds):
    """The results of replay memories, and what clients inserted beside them."""

    inserted: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """(subject, workload): transitions per second, by round."""

    def inserted_per_second(self) -> dict[str, dict[str, float]]:
        """By workload and subject: the median of the rounds."""
        found: dict[str, dict[str, float]] = {}
        for (subject, workload), rates in self.inserted.items():
            found.setdefault(workload, {})[subject] = float(np.median(rates))
        return found


def is_floor(subject: str) -> bool:
    """Whether it only moves bytes and stores nothing."""
    return "(floor)" in subject


def workload_of(work: Work, clients: int) -> str:
    """What a record calls it."""
    return work.name if clients == 0 else f"{work.name}, {clients} inserting"


def measure_replays(
    stop: Stop,
    works: Sequence[tuple[Work, Sequence[Subject]]],
    *,
    rounds: int,
    effort: Effort,
    note: Note,
    clients: Sequence[int] = CLIENTS,
) -> Results:
    """Measures all subjects in turns over each work, and the floors behind each round.

    When stopped, returns what there is, marked as interrupted.
    """
    results = Results()
    with results.until_stopped():
        for work, subjects in works:
            with Workers(stop) as learners:
                one = _OneWork(stop, learners, results, work, effort, clients)
                results.take_turns(
                    stop, subjects, rounds, one.turn, note, what=f"{work.name}, ",
                    behind=one.measure_floors,
                )  # fmt: skip
    return results


@dataclass
class _OneWork:
    """One work: the learners' processes, and what a turn is."""

    stop: Stop
    learners: Workers
    results: Results
    work: Work
    effort: Effort
    clients: Sequence[int]

    def turn(self, subject: Subject) -> None:
        new = subject.name not in self.learners
        try:
            learner = self.learners.of(subject.name, partial(Learner, subject.find))
            if new or not subject.resident:
                includes = learner.call("open", subject.shape)
                if subject.link is None:
                    self.results.includes[subject.name] = includes
            for count in self.clients:
                self._beside(subject, learner, count)
            if not subject.resident:
                learner.call("shut")
        except WorkerFailed:
            self.learners.end(subject.name)
            raise

    def _beside(self, subject: Subject, learner: Worker, count: int) -> None:
        """Every operation, while so many clients insert."""
        if count == 0:
            self._operations(subject, learner, count, ALONE)
            return
        make = partial(Client, learner.call("door"), subject.shape)
        with ExitStack() as stack:
            clients = [stack.enter_context(Worker(self.stop, make)) for _ in range(count)]
            learner.begin("welcome", count)
            for client in clients:
                client.ready()
            learner.answer()
            with ExitStack() as inserting:
                rate = self._rate(subject)
                found = [inserting.enter_context(c.doing("insert", rate)) for c in clients]
                self._operations(subject, learner, count, BESIDE)
            for client in clients:
                client.begin("leave")
            learner.call("let_go", deadline_s=_LEAVE_S)
            for client in clients:
                client.answer(_LEAVE_S)
        per_second = sum(inserted / seconds for ((inserted, seconds),) in found)
        key = subject.name, workload_of(self.work, count)
        self.results.inserted.setdefault(key, []).append(per_second)

    def _operations(
        self, subject: Subject, learner: Worker, clients: int, ops: Sequence[str]
    ) -> None:
        link, reply_bytes = subject.link, subject.shape.reply_bytes(BATCH)
        for op in (*ops, PREFETCHED):
            latencies = learner.measure(op, self.effort)
            if latencies is not None:
                self.results.keep(
                    subject.name, op, workload_of(self.work, clients), latencies,
                    operation_bytes=reply_bytes if link is not None and op in BULK else None,
                    threads=clients + (0 if link is None else link.polling_threads),
                )  # fmt: skip

    def _rate(self, subject: Subject) -> float:
        """Transitions per second of a client."""
        *_, alone = self.results.rounds[subject.name, INSERT, self.work.name].values()
        return min(SHARE * BY * 1e6 / float(np.mean(alone)), self.work.beside_per_second / 2)

    def measure_floors(self, subjects: Sequence[Subject]) -> None:
        """The ratios of every form in which a server of ours holds the work."""
        self.results.distance.look(self.results.cores, f"{self.work.name}, floors")
        for form, shape in self.work.forms.items():
            links = [s.link for s in subjects if s.link is not None and s.shape == shape]
            polls = sorted({link.poll for link in links if link.name.startswith("udp")})
            for floor in measure_floors(self.stop, shape, self.effort, polls) if links else ():
                self.results.keep(
                    named(floor.subject, form), floor.op, self.work.name, floor.latencies_us,
                    operation_bytes=floor.operation_bytes,
                )  # fmt: skip
