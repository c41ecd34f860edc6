"""A group of processes that measures: a server, its actors and its learner."""

from __future__ import annotations

import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from statistics import median
from typing import Any

from drlnet.bench.cores import Cores, pin_process
from drlnet.bench.paper.access import REDIS_SCHEME
from drlnet.bench.paper.learner import FLOOR
from drlnet.bench.paper.phases import FINISHED, Appends, FloorSlice, Phase
from drlnet.bench.paper.workloads import Workload
from drlnet.bench.rounds import Effort
from drlnet.bench.transport.subjects import Subject
from drlnet.errors import DrlnetError, TransportError
from drlnet.launch.process import DRLNET, Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Supervisor

READY_DEADLINE_S = 60.0
SLICE_S = 0.04  # of a cell, at most: seconds before a host moves cores, longer than 17 MB take
_QUIET_S = 60.0  # without a word of any role
TOLD = "-"  # as a server's address: a line on standard input, once the server is there
Rate = Callable[[int], float | None]
"""Bytes per second of the bare transport, for a batch; none where that cannot be measured."""
REDIS, REDIS_SERVER = "redis over TCP", "redis-server"


@dataclass(frozen=True)
class Group:
    """One set of processes.

    place: "network", where (b) and (c) are measured on one server; "learner", where (a) is;
    "redis". poll of the transport: of server and learner; actors, too.
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
        where = {"network": "(b), (c)", "learner": "(a)", "redis": "(b)"}[self.place]
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


@dataclass
class Heard:
    """What a group said."""

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

    def actor_core(self, index: int) -> int | None:
        """Beside the learner where there are two cores, else on those that are left."""
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
    """Runs it to its end. What was said before an error stays in `heard`.

    All roles start at once, since most of that is imports, and are told where the server is.
    rate: where floors are asked for; called while no other process of the group runs.

    Raises what a role died of.
    """
    with Supervisor(stop) as roles:
        server = _start_server(group, places, roles)
        # It waits for the server's word as the actors do, but where it is the server itself.
        words = _learner(group, effort, places, turn, training_s, floors=rate is not None)
        learner = roles.start("learner", words, program=places.learner, told=True)
        actors = [
            roles.start(f"actor-{i}", _actor(group, places, i), program=places.actor, told=True)
            for i in range(group.workload.actors)
        ]
        if isinstance(server, Process):
            address = _first_address(roles.wait_for_line(server, "ready", READY_DEADLINE_S))
        elif group.place == "learner":
            address = _first_address(roles.wait_for_line(learner, "ready", READY_DEADLINE_S))
        else:
            address = server
        if stop.is_set():
            return
        stopped = list(actors)
        if isinstance(server, Process):
            pin_process(server.pid, places.cores.server)
            stopped.append(server)
        if group.place != "learner":
            learner.tell(places.reached(group, address, None))
        for i, actor in enumerate(actors):
            actor.tell(places.reached(group, address, i))
        try:
            for phase in _phases(stop, roles, heard):
                if phase.op == FLOOR and rate is not None:
                    with _at_rest(stopped):
                        _keep_floor(phase, rate(phase.batch), heard)
                    learner.tell("go on")
        finally:
            # All at once, but before whom they talk to.
            clients = actors if group.place == "learner" else [*actors, learner]
            for said in roles.end(clients):
                _keep(said.values, heard)
            roles.end([learner])


def _start_server(group: Group, places: Places, roles: Supervisor) -> Process | str:
    """The server's process, or the address of a Redis; nothing where the learner is the server."""
    if group.place == "learner":
        return ""
    if group.place == "redis":
        return start_redis(roles)
    listen = [word for address in places.listens(group) for word in ("--listen", address)]
    words = ["serve", "--json", "--insecure", "--poll", group.transport.poll, *listen]
    return roles.start("server", words, program=places.server)


def _first_address(said: dict[str, Any]) -> str:
    return str(said["addresses"][0]) if said else ""


def _common(group: Group, role: str, address: str, core: int | None) -> list[str]:
    workload = group.workload
    return [
        *("bench", "paper", "--json", "--role", role, "--server", address),
        *("--poll", group.transport.poll, "--size", workload.shape),
        *("--actors", str(workload.actors), "--rate", str(workload.rate)),
        *(() if core is None else ("--core", str(core))),
    ]


def _learner(
    group: Group, effort: Effort, places: Places, turn: int, training_s: float, *, floors: bool
) -> list[str]:
    address = places.listens(group)[0] if group.place == "learner" else TOLD
    words = [*_common(group, "learner", address, places.cores.client), "--stay"]
    words += ["--layouts", "a" if group.place == "learner" else "bc", "--turn", str(turn)]
    words.append("--insecure")  # whoever measures has chosen where
    words += ["--batches", ",".join(map(str, group.batches)) or "none"]
    words += ["--calls", str(effort.calls), "--budget-s", str(effort.budget_s)]
    words += ["--warm-up", str(effort.warm_up)]
    if group.place == "network":  # elsewhere there is one layout, and no floor
        words += ["--slices", str(max(1, round(effort.budget_s / SLICE_S)))]
    replay_core = places.cores.client if group.crowded else places.cores.server
    if group.place == "learner" and replay_core is not None:
        words += ["--replay-core", str(replay_core)]
    if group.training:
        words += ["--training-s", str(training_s)]
    if floors:
        words.append("--floors")
    return words


def _actor(group: Group, places: Places, index: int) -> list[str]:
    core = places.cores.server if group.crowded else places.actor_core(index)
    return _common(group, "actor", TOLD, core)


def _phases(stop: Stop, roles: Supervisor, heard: Heard) -> Iterator[Phase]:
    """As the learner measures them, until it has finished. What actors did last they say when they
    end.
    """
    finished = False
    while not finished and not stop.is_set():
        events = roles.wait(_QUIET_S)
        for event in events:
            if isinstance(event, Ended):
                raise _failure(event.process)
            phase = _keep(event.values, heard)
            if phase is not None:
                yield phase
            finished |= event.values.get("event") == FINISHED
        if not events and not stop.is_set():
            raise TransportError(
                f"the roles said nothing for {_QUIET_S:g} s",
                "measure less, or look at what else the machine does",
            )


@contextmanager
def _at_rest(processes: Sequence[Process]) -> Iterator[None]:
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


def _keep(values: dict[str, Any], heard: Heard) -> Phase | None:
    """A phase, when it is one."""
    if values.get("event") == "phase":
        heard.phases.append(Phase.from_json(values))
        return heard.phases[-1]
    if values.get("event") == "appends":
        heard.appends += [Appends(**chunk) for chunk in values["chunks"]]
    return None


def _failure(process: Process) -> DrlnetError:
    if process.name == REDIS_SERVER:
        return TransportError(
            f"redis-server {process.ending} while it was measured",
            "look what ended it (memory?), or measure without it: --no-redis",
        )
    return process.failure()


def redis_missing() -> str | None:
    """Why layout (b) cannot be measured on Redis here."""
    if shutil.which("redis-server") is None:
        return "no redis-server: apt-get install redis-server"
    if find_spec("redis") is None:
        return "no redis package: pip install redis"
    return None


def start_redis(roles: Supervisor) -> str:
    """The address of a Redis server of our own, which keeps nothing on disk."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    keep_nothing = ("--save", "", "--appendonly", "no", "--loglevel", "warning")
    # It does not tie itself to this process, as roles do (launch/guard.py): setpriv does.
    tie = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    arguments = ["--port", port, "--bind", "127.0.0.1", *keep_nothing]
    roles.start(REDIS_SERVER, arguments, program=(*tie, "redis-server"))
    return f"{REDIS_SCHEME}127.0.0.1:{port}"
