"""A group of processes that measures: a server, its actors and its learner; and the bare transport
beside it.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

import numpy as np

from drlnet.bench.engine import Effort
from drlnet.bench.machine import Cores
from drlnet.bench.measure import FrameReceiver, FrameSender
from drlnet.bench.paper.roles import (
    BATCH,
    CYCLE,
    FETCH,
    FLOOR,
    PING,
    STORE,
    TRAIN,
    Actor,
    Appends,
    Learner,
    Phase,
    layout_of,
)
from drlnet.bench.paper.workloads import BASE, BATCHES, SHAPES, Layout, Workload
from drlnet.bench.processes import Worker, WorkerFailed, Workers, served
from drlnet.bench.transport.subjects import Subject
from drlnet.launch.process import DRLNET, Process
from drlnet.launch.signals import Stop

SLICE_S = 0.04  # of a cell, at most: seconds before a host moves cores, longer than 17 MB take
Rate = Callable[[int], float | None]
"""Bytes per second of the bare transport, for a batch; none where that cannot be measured."""
Op = tuple[str, Layout, int]  # operation, layout, batch
_REST_S = 3.0  # the group is stopped meanwhile, and its calls have deadlines of 10 s
_LOOK_S = 0.002  # how often a sender looks whether it is to rest
_RATE = Effort(calls=1000, budget_s=0.025, warm_up=2)


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
    training: bool = False
    crowded: bool = False  # (a) only: learner and replay share a core

    @property
    def name(self) -> str:
        doing = "training, " if self.training else ""
        doing += "shared core, " if self.crowded else ""
        if not self.batches:
            return f"memory server, {self.transport.name}, {self.workload.words}"
        where = "(b), (c)" if self.place == "network" else "(a)"
        return f"{where}, {doing}{self.transport.name}, {self.workload.words}"

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


@dataclass(frozen=True)
class FloorSlice:
    """What a batch's floor is made of, measured between two slices of its cells."""

    batch: int
    start_s: float
    end_s: float
    ping_us: float  # p50
    bytes_per_second: float


@dataclass
class Heard:
    """What a group measured."""

    phases: list[Phase] = field(default_factory=list)
    appends: list[Appends] = field(default_factory=list)
    floors: list[FloorSlice] = field(default_factory=list)


@dataclass(frozen=True)
class Places:
    """Where the roles run: programs (inside namespaces) and cores."""

    cores: Cores
    server: Sequence[str] = DRLNET
    actor: Sequence[str] = DRLNET
    learner: Sequence[str] = DRLNET

    def listens(self, group: Group) -> list[str]:
        """What the server listens on, or the learner that holds the replay."""
        return [group.transport.listen]

    def reached(self, group: Group, ready: str, actor: int | None) -> str:
        """What an actor types to reach it, or the learner (None). ready: as it said itself."""
        return ready

    def actor_core(self, group: Group, index: int) -> int | None:
        """Beside the learner where there are two cores, else on those that are left."""
        if group.crowded:
            return self.cores.server
        if self.cores.client is None or self.cores.count < 3:
            return self.cores.client
        return self.cores.client + 1 + index % (self.cores.count - 2)


def run_group(
    stop: Stop,
    group: Group,
    effort: Effort,
    places: Places,
    heard: Heard,
    *,
    turn: int = 0,
    training_s: float = 0.0,
    rate: Rate | None = None,
) -> None:
    """Runs it to its end. What was measured before an error stays in `heard`.

    rate: where floors are asked for; called while no other process of the group runs. Raises what a
    role died of, Stopped.
    """
    with _connected(stop, group, places) as (server, learner, actors), ExitStack() as acting:
        found = [acting.enter_context(actor.doing("act")) for actor in actors]
        resting: list[Worker | Process] = [*actors, *([server] if server else [])]
        slices = _slices(group, effort)
        for op, layout, batch in operations(group, turn, slices=slices, floors=rate is not None):
            if op == STORE:  # the learner rests: the actors are measured
                start_s = time.monotonic()
                stop.wait(effort.budget_s)
                heard.phases.append(Phase(op, layout, batch, start_s, time.monotonic(), []))
                continue
            part = effort
            if op == TRAIN:
                part = Effort(100_000, training_s, 2)
            elif op in {BATCH, CYCLE}:
                part = replace(effort, budget_s=effort.budget_s / slices)
            phase = learner.measure(op, layout, batch, part)
            heard.phases.append(phase)
            if op == FLOOR and rate is not None:
                with _at_rest(resting):
                    _keep_floor(phase, rate(batch), heard)
        acting.close()
        heard.appends += [chunk for (chunks,) in found for chunk in chunks]


@contextmanager
def _connected(
    stop: Stop, group: Group, places: Places
) -> Iterator[tuple[Process | None, Worker, list[Worker]]]:
    """(server, learner, actors), ready to be measured; no server where the learner is it."""
    poll, workload, cores = group.transport.poll, group.workload, places.cores
    make, address = partial(Learner, poll, workload.shape), ""
    server: Process | None = None
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
            server, (address, *_) = servers.enter_context(
                served(stop, listen, poll, core=cores.server, program=places.server, insecure=True)
            )
            learner.call("open", places.reached(group, address, None), workload.rate > 0)
        else:
            replay_core = cores.client if group.crowded else cores.server
            address = learner.call("serve", places.listens(group)[0], replay_core)
        if group.training:
            learner.call("prepare_training", group.batches[0])
        for index, actor in enumerate(actors):
            reached = places.reached(group, address, index)
            actor.call("open", reached, poll, workload.shape, workload.rate)
        yield server, learner, actors


def _slices(group: Group, effort: Effort) -> int:
    """The plan of the cells of batches, which share their time."""
    return max(1, round(effort.budget_s / SLICE_S)) if group.place == "network" else 1


def operations(group: Group, turn: int, *, slices: int, floors: bool) -> Iterator[Op]:
    """What the learner does, one after the other. turn: the layouts at one server change by it.

    slices: of the cells of batches, which take turns and share the time. floors: pings right before
    and behind each slice of the in-network layout.
    """
    network = [Layout.NETWORK, Layout.STORE]
    layouts = network if group.place == "network" else [Layout.LEARNER]

    def turned(number: int) -> list[Layout]:
        first = number % len(layouts)
        return layouts[first:] + layouts[:first]

    if group.training:
        yield from ((TRAIN, layout, group.batches[0]) for layout in turned(turn))
        return
    if group.place == "network":
        fetches = [FETCH] if group.workload.rate else []
        yield from ((op, Layout.MEMORY, 1) for op in (PING, *fetches, STORE))
    for number in range(turn, turn + slices):
        for batch in group.batches:
            for layout in turned(number):
                beside = [FLOOR] if floors and layout is Layout.NETWORK else []
                for op in (*beside, BATCH, *beside, CYCLE, *beside):
                    yield op, layout, batch


@contextmanager
def _at_rest(processes: Sequence[Worker | Process]) -> Iterator[None]:
    """Those that poll leave their cores, and those that talk leave their links."""
    for process in processes:
        process.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            process.signal(signal.SIGCONT)


def _keep_floor(pings: Phase, rate: float | None, heard: Heard) -> None:
    if rate is not None and pings.us:
        heard.floors.append(
            FloorSlice(pings.batch, pings.start_s, time.monotonic(), median(pings.us), rate)
        )


class _Sender:
    """The process that hands out bytes: its memory and its port are new for each group."""

    def hear(self, asked: Callable[[], bool]) -> None:
        self._asked = asked

    def open(self, listen: str, poll: str) -> str:
        """Its address."""
        self._sender: FrameSender | None = FrameSender(listen, poll)
        return self._sender.address

    def serve(self) -> None:
        """Answers until asked for something else."""
        assert self._sender is not None
        while not self._asked():
            self._sender.serve(_LOOK_S)

    def shut(self) -> None:
        self._sender = None


class _Receiver:
    """The process that takes them."""

    def open(self, address: str, poll: str) -> None:
        self._receiver: FrameReceiver | None = FrameReceiver(address, poll)

    def measure(self, size: int) -> float | None:
        """Bytes per second of transfers of that length; none when none came to its end."""
        assert self._receiver is not None
        latencies = _RATE.latencies_us(partial(self._receiver.transfers, size))
        return size / float(np.median(latencies)) * 1e6 if len(latencies) else None

    def shut(self) -> None:
        self._receiver = None


class Rates(Workers):
    """What the transports alone take for a batch's bytes: no session, no table, the same frames.

    Measured within the group whose floors it makes, while the group's processes are stopped. tell:
    told once, with its cause, of a transport that cannot be measured; it is left out then.
    """

    def __init__(self, stop: Stop, cores: Cores, tell: Callable[[str, str], None]) -> None:
        super().__init__(stop)
        self._cores = cores
        self._tell = tell
        self._failed: set[str] = set()

    @contextmanager
    def beside(self, group: Group) -> Iterator[Rate | None]:
        """Measures the rate of a batch's bytes over the group's transport whenever it is called.

        None where no floor is of that group. Raises Stopped.
        """
        transport = group.transport
        wanted = group.place == "network" and group.batches and not group.training
        if not wanted or transport.name in self._failed:
            yield None
            return
        sender = receiver = None
        with self._losing(transport):
            sender = self.of("sender", _Sender, core=self._cores.server)
            receiver = self.of("receiver", _Receiver, core=self._cores.client)
            address = sender.call("open", transport.listen, transport.poll)
            receiver.call("open", transport.connect or address, transport.poll)

        def rate(batch: int) -> float | None:
            if sender is None or receiver is None or transport.name in self._failed:
                return None
            found: float | None = None
            with self._losing(transport), sender.doing("serve", deadline_s=_REST_S):
                receiver.begin("measure", length_for(group.workload, batch))
                found = receiver.answer(_REST_S)
            return found  # noqa: RET504, the block may be left before

        yield rate
        if sender is not None and receiver is not None and transport.name not in self._failed:
            with self._losing(transport):
                sender.call("shut")
                receiver.call("shut")

    @contextmanager
    def _losing(self, transport: Subject) -> Iterator[None]:
        """A worker that fails within takes the transport out, and no more; others get new ones."""
        try:
            yield
        except WorkerFailed as error:
            self._failed.add(transport.name)
            self._tell(f"bytes of {transport.name}", str(error))
            self.end("sender", "receiver")


def length_for(workload: Workload, batch: int) -> int:
    """The transfers that such a batch is compared with: the nearest of the base case's."""
    spec, base = SHAPES[workload.shape].spec(), SHAPES[BASE.shape].spec()
    size = int(layout_of(spec, batch)["total_bytes"])
    known = [int(layout_of(base, each)["total_bytes"]) for each in BATCHES]
    return min(known, key=lambda one: abs(math.log(one / size)))
