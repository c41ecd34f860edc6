"""Groups of processes that measure, each a server, its actors and its learner; all in turns."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from drlnet.bench.engine import Effort, Note, Results
from drlnet.bench.machine import Cores
from drlnet.bench.paper.roles import (
    ALONE,
    BASE,
    BATCH,
    BATCHES,
    CYCLE,
    FETCH,
    PING,
    SINCE_DUE,
    STORE,
    Actor,
    Appends,
    Layout,
    Learner,
    Phase,
    Workload,
    variations,
)
from drlnet.bench.processes import Worker, served
from drlnet.bench.records import Record
from drlnet.bench.transport.suite import Subject
from drlnet.launch.process import DRLNET
from drlnet.launch.signals import Stop

SUITE = "paper"
OPS = (PING, STORE, SINCE_DUE, FETCH, BATCH, CYCLE)
# So many calls that all but pings take the time: actors append a few times meanwhile.
FULL = Effort(calls=20_000, budget_s=0.25, warm_up=50)
QUICK = Effort(calls=20_000, budget_s=0.12, warm_up=20)
SLICE_S = 0.04  # of a cell, at most: seconds before a host moves cores, longer than 17 MB take
Op = tuple[str, Layout, int]  # operation, layout, batch


@dataclass(frozen=True)
class Group:
    """One set of processes.

    place: "network", where (b) and (c) are measured on one server; "learner", where (a) is. poll of
    the transport: of server, learner and actors.
    """

    place: str
    transport: Subject
    workload: Workload
    batches: tuple[int, ...]

    @property
    def name(self) -> str:
        where = "(b), (c)" if self.place == "network" else "(a)"
        where = where if self.batches else "memory server"
        return f"{where}, {self.transport.name}, {self.workload.words}"

    @property
    def polling_threads(self) -> int:
        """Threads that never sleep: server, learner, and actors without a pause.

        In (a) an actor that waits for its answer counts, too: the learner computes all the time,
        where elsewhere it waits for the server and leaves its core to actors.
        """
        if self.transport.poll != "busy":
            return 0
        paced = min(1, self.workload.actors) if self.place == "learner" else 0
        return 2 + (paced if self.workload.rate else self.workload.actors)


@dataclass
class Heard:
    """What a group measured."""

    phases: list[Phase] = field(default_factory=list)
    appends: list[Appends] = field(default_factory=list)


@dataclass(frozen=True)
class Places:
    """Where the roles run: programs (inside namespaces) and cores."""

    cores: Cores
    server: Sequence[str] = DRLNET
    actor: Sequence[str] = DRLNET
    learner: Sequence[str] = DRLNET

    @staticmethod
    def usable() -> Places:
        """On this machine, without namespaces."""
        return Places(Cores.usable())

    def listens(self, group: Group) -> list[str]:
        """What the server listens on, or the learner that holds the replay."""
        return [group.transport.listen]

    def reached(self, group: Group, ready: str, actor: int | None) -> str:
        """What an actor types to reach it, or the learner (None). ready: as it said itself."""
        return ready

    def actor_core(self, group: Group, index: int) -> int | None:
        """Beside the learner where there are two cores, else on those that are left."""
        if self.cores.client is None or self.cores.count < 3:
            return self.cores.client
        return self.cores.client + 1 + index % (self.cores.count - 2)


def run_group(
    stop: Stop, group: Group, effort: Effort, places: Places, heard: Heard, *, turn: int = 0
) -> None:
    """Runs it to its end. What was measured before an error stays in `heard`.

    Raises what a role died of, Stopped.
    """
    with _connected(stop, group, places) as (learner, actors), ExitStack() as acting:
        found = [acting.enter_context(actor.doing("act")) for actor in actors]
        # The cells of batches take turns in slices, which share their time.
        slices = max(1, round(effort.budget_s / SLICE_S)) if group.place == "network" else 1
        part = replace(effort, budget_s=effort.budget_s / slices)
        for op, layout, batch in operations(group, turn, slices=slices):
            if op == STORE:  # the learner rests: the actors are measured
                start_s = time.monotonic()
                stop.wait(effort.budget_s)
                heard.phases.append(Phase(op, layout, batch, start_s, time.monotonic(), []))
            else:
                phase = learner.measure(op, layout, batch, part if batch else effort)
                heard.phases.append(phase)
        acting.close()
        heard.appends += [chunk for (chunks,) in found for chunk in chunks]


@contextmanager
def _connected(stop: Stop, group: Group, places: Places) -> Iterator[tuple[Worker, list[Worker]]]:
    """(learner, actors), ready to be measured."""
    poll, workload, cores = group.transport.poll, group.workload, places.cores
    make, address = partial(Learner, poll, workload.shape), ""
    with ExitStack() as servers, ExitStack() as roles:  # roles end before their server does
        # All start at once, since most of that is imports.
        learner = roles.enter_context(Worker(stop, make, program=places.learner, core=cores.client))
        actors = [
            roles.enter_context(
                Worker(stop, Actor, program=places.actor, core=places.actor_core(group, index))
            )
            for index in range(workload.actors)
        ]
        if group.place == "network":
            listen = places.listens(group)
            _, (address, *_) = servers.enter_context(
                served(stop, listen, poll, core=cores.server, program=places.server, insecure=True)
            )
            learner.call("open", places.reached(group, address, None), workload.rate > 0)
        else:
            address = learner.call("serve", places.listens(group)[0], cores.server)
        for index, actor in enumerate(actors):
            reached = places.reached(group, address, index)
            actor.call("open", reached, poll, workload.shape, workload.rate)
        yield learner, actors


def operations(group: Group, turn: int, *, slices: int) -> Iterator[Op]:
    """What the learner does, one after the other; batch 0 where an operation has none.

    turn: the layouts at one server change by it. slices: of the cells of batches, which take turns.
    """
    layouts = [Layout.LEARNER]
    if group.place == "network":
        layouts = [Layout.NETWORK, Layout.STORE]
        fetches = [FETCH] if group.workload.rate else []
        yield from ((op, Layout.MEMORY, 0) for op in (PING, *fetches, STORE))
    for number in range(turn, turn + slices):
        for batch in group.batches:
            for layout in layouts[:: -1 if number % 2 else 1]:
                yield BATCH, layout, batch
                yield CYCLE, layout, batch


def groups_of(transports: Sequence[Subject], *, quick: bool) -> list[Group]:
    """Which groups compare what. transports: kernel UDP blocking and polled, then devices.

    Every transport gets the base case (in quick, (a) only where it has more); the first device and
    blocking kernel UDP (without a device polled kernel UDP) get the other workloads, too.
    """
    bases = [*transports[:1], *(transports[2:3] or transports[1:2])]
    found = [Group("network", transport, ALONE, ()) for transport in transports]
    # What is compared stands side by side, (a) behind the (b) and (c) of its transport: seconds
    # apart, the host has seldom moved the cores in between.
    for workload in variations(quick=quick):
        # Where round trips dominate, the small batch is what shows it.
        both = workload in {BASE, replace(BASE, shape="cartpole")}
        for transport in transports:
            for place in ("network", "learner"):
                base = workload == BASE and not (quick and place == "learner")
                if base or transport in bases:
                    batches = BATCHES if both else BATCHES[:1]
                    found.append(Group(place, transport, workload, batches))
    return found


def keep(results: Results, group: Group, heard: Heard) -> None:
    """The group's round, or what there is of it. A subject is a layout over a transport."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    polling: dict[tuple[str, str, str], int] = {}
    for phase in heard.phases:
        workload = group.workload.with_batch(phase.batch)
        subject = f"{phase.layout.value}, {group.transport.name}"
        latencies = {phase.op: phase.us}
        if phase.op in {STORE, BATCH}:
            begun = during(heard.appends, phase)
            latencies[STORE] = [us for one in begun for us in one.us]
            latencies[SINCE_DUE] = [us for one in begun for us in one.since_due_us]
        # While the learner rests it does not poll.
        threads = max(0, group.polling_threads - (phase.op == STORE))
        for op, us in latencies.items():
            found[subject, op, workload] += us
            polling[subject, op, workload] = threads
    for key, us in found.items():
        results.keep(*key, us, threads=polling[key])


def records_of(results: Results) -> list[Record]:
    """In the order of the tables: one layout below the other, by transport."""
    return results.records(SUITE, OPS, subjects=lambda subject: subject.split(", ")[::-1])


def during(appends: Sequence[Appends], phase: Phase) -> list[Appends]:
    """Those that were begun within the phase.

    However long they took, or short phases would have only short ones.
    """
    return [one for one in appends if phase.start_s <= one.start_s <= phase.end_s]


def measure_paper(
    stop: Stop,
    groups: Sequence[Group],
    *,
    rounds: int,
    effort: Effort,
    note: Note,
    places: Places | None = None,
) -> Results:
    """Measures all groups, a round at a time.

    When stopped, what was measured until then is returned, marked as interrupted.
    """
    places = places or Places.usable()
    results = Results(cores=places.cores)

    def turn(group: Group) -> None:
        heard = Heard()
        try:
            run_group(stop, group, effort, places, heard, turn=results.number)
        finally:
            keep(results, group, heard)

    with results.until_stopped():
        results.take_turns(stop, groups, rounds, turn, note)
    return results
