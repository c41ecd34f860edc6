"""Replay memories in turns: ours over each transport, and peers, on the same work.

Each memory is used by a process of its own, which may die alone. Peers are filled once for a work
and stay, idle, between their turns, since some take minutes to fill; our servers, which poll, are
started anew for each turn, so that they take no core from the others. Subjects take turns within
each round, the order shifted by one from round to round. Percentiles are medians over the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from drlnet.bench.cores import Cores
from drlnet.bench.records import Key, Record
from drlnet.bench.replay.floors import measure_floors
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
)
from drlnet.bench.replay.memory import BY
from drlnet.bench.replay.subjects import Subject, Work, named
from drlnet.bench.rounds import Effort, orders
from drlnet.bench.rounds import Results as Rounds
from drlnet.bench.worker import Stopped, Worker, WorkerFailed, Workers
from drlnet.launch.signals import Stop

SUITE = "replay"
CLIENTS = (0, 1, 2)
SHARE = 0.25  # each inserting client's rate at most, of what its subject inserts alone
OPS = (*ALONE, PREFETCHED)
BULK = (SAMPLE, CYCLE, PREFETCHED)  # what moves a batch


@dataclass
class Results(Rounds):
    """Of replay memories."""

    includes: dict[str, str] = field(default_factory=dict)  # by peer
    busy: dict[tuple[str, str], int] = field(default_factory=dict)
    """(subject, workload): threads that poll, and clients that insert."""
    bytes: dict[Key, int] = field(default_factory=dict)  # that one call moves
    inserted: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """(subject, workload): transitions per second that clients inserted beside the learner."""

    def inserted_per_second(self) -> dict[str, dict[str, float]]:
        """By workload and subject: what clients inserted beside the learner, median of rounds."""
        found: dict[str, dict[str, float]] = {}
        for (subject, workload), rates in self.inserted.items():
            found.setdefault(workload, {})[subject] = float(np.median(rates))
        return found

    def records(self) -> list[Record]:
        """By workload and operation; within each, subjects as they were first measured."""
        cores = Cores.usable().count
        return [
            Record.of(
                SUITE,
                subject,
                workload,
                op,
                self.rounds[subject, op, workload],
                operation_bytes=self.bytes.get((subject, op, workload)),
                oversubscribed=self.busy.get((subject, workload), 0) > cores,
            )
            for subject, op, workload in self.in_order(OPS, workloads_first=True)
        ]


def is_floor(subject: str) -> bool:
    """Whether it is none that stores anything."""
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
    note: Callable[[str], None],
    clients: Sequence[int] = CLIENTS,
) -> Results:
    """Measures all subjects in turns over each work, and the floors behind each round.

    A subject that fails is left out from there on and its cause kept, with what was measured
    before. When stopped, returns what there is, marked as interrupted.
    """
    results = Results()
    try:
        for work, subjects in works:
            with Workers(stop) as learners:
                turns = _Turns(stop, learners, results, work, effort, clients, note)
                turns.measure(list(subjects), rounds)
    except Stopped:
        results.interrupted = True
    return results


class _Turns:
    """One work: the learners' processes, and whose turn it is."""

    def __init__(
        self,
        stop: Stop,
        learners: Workers,
        results: Results,
        work: Work,
        effort: Effort,
        clients: Sequence[int],
        note: Callable[[str], None],
    ) -> None:
        self._stop = stop
        self._learners = learners
        self._results = results
        self._work = work
        self._effort = effort
        self._clients = clients
        self._note = note

    def measure(self, left: list[Subject], rounds: int) -> None:
        for number, order in enumerate(orders(left, rounds), 1):
            self._results.begin(number)
            for subject in order:
                self._note(f"{self._work.name}, round {number} of {rounds}: {subject.name}")
                self._look(subject.name)
                try:
                    self._turn(subject)
                except WorkerFailed as error:
                    left.remove(subject)
                    self._learners.end(subject.name)
                    self._results.leave_out(subject.name, str(error), self._note)
            self._look("floors")
            self._floors(left)

    def _look(self, before: str) -> None:
        """How far apart the cores are: who had the turn before has ended, or waits."""
        self._results.distance.look(Cores.usable(), f"{self._work.name}, {before}")

    def _turn(self, subject: Subject) -> None:
        new = subject.name not in self._learners
        learner = self._learners.of(subject.name, partial(Learner, subject.find))
        if new or not subject.resident:
            includes = learner.call("open", subject.shape)
            if subject.link is None:
                self._results.includes[subject.name] = includes
        for count in self._clients:
            self._beside(subject, learner, count)
        if not subject.resident:
            learner.call("shut")

    def _beside(self, subject: Subject, learner: Worker, count: int) -> None:
        """Every operation, while so many clients insert."""
        workload = workload_of(self._work, count)
        ops = ALONE if count == 0 else BESIDE
        polling = 0 if subject.link is None else subject.link.polling_threads
        self._results.busy[subject.name, workload] = polling + count
        with ExitStack() as stack:
            clients: list[Worker] = []
            if count:
                door = learner.call("door")
                make = partial(Client, door, subject.shape)
                clients = [stack.enter_context(Worker(self._stop, make)) for _ in range(count)]
                learner.begin("welcome", count)
                for client in clients:
                    client.call("ready")
                learner.answer(60.0)
                for client in clients:
                    client.begin("insert", self._rate(subject))
            for op in (*ops, PREFETCHED):
                latencies = learner.measure(op, self._effort)
                if latencies is not None and len(latencies):
                    self._results.keep(subject.name, op, workload, latencies)
                    if subject.link is not None and op in BULK:
                        size = subject.shape.reply_bytes(BATCH)
                        self._results.bytes[subject.name, op, workload] = size
            self._dismiss(subject, learner, clients, workload)

    def _rate(self, subject: Subject) -> float:
        """Transitions per second of a client."""
        *_, alone = self._results.rounds[subject.name, INSERT, self._work.name].values()
        return min(SHARE * BY * 1e6 / float(np.mean(alone)), self._work.beside_per_second / 2)

    def _dismiss(
        self, subject: Subject, learner: Worker, clients: Sequence[Worker], workload: str
    ) -> None:
        if not clients:
            return
        for client in clients:
            client.begin("leave")
        learner.begin("let_go")
        per_second = 0.0
        for client in clients:
            count, seconds = client.answer(60.0)
            per_second += count / seconds
            client.answer(60.0)  # it has left
        learner.answer(60.0)
        self._results.inserted.setdefault((subject.name, workload), []).append(per_second)

    def _floors(self, subjects: Sequence[Subject]) -> None:
        """Of every form in which a server of ours holds the work."""
        for form, shape in self._work.forms.items():
            links = [s.link for s in subjects if s.link is not None and s.shape == shape]
            polls = sorted({link.poll for link in links if link.name.startswith("udp")})
            for floor in measure_floors(self._stop, shape, self._effort, polls) if links else ():
                name = named(floor.subject, form)
                self._results.keep(name, floor.op, self._work.name, floor.latencies_us)
                self._results.bytes[name, floor.op, self._work.name] = floor.operation_bytes
