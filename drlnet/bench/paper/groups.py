"""A group of processes that measures: a server, its actors and its learner."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from drlnet.bench.cores import Cores, pin_process
from drlnet.bench.paper.access import REDIS_SCHEME
from drlnet.bench.paper.phases import FINISHED, Appends, Phase
from drlnet.bench.paper.workloads import Workload
from drlnet.bench.rounds import Effort
from drlnet.bench.transport.subjects import Subject
from drlnet.errors import DrlnetError, TransportError
from drlnet.launch.process import DRLNET, Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Supervisor

READY_DEADLINE_S = 60.0
_QUIET_S = 60.0  # without a word of any role
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
) -> None:
    """Runs it to its end. What was said before an error stays in `heard`.

    Raises what a role died of.
    """
    with Supervisor(stop) as roles:
        ready = _serve(stop, group, places, roles)
        if not ready:
            return  # stopped before
        learner = roles.start(
            "learner",
            _learner(group, effort, places, ready, turn, training_s),
            program=places.learner,
        )
        if group.place == "learner":
            ready = _first_address(roles.wait_for_line(learner, "ready", READY_DEADLINE_S))
            if not ready:
                return
        actors = [
            roles.start(f"actor-{i}", _actor(group, places, ready, i), program=places.actor)
            for i in range(group.workload.actors)
        ]
        try:
            _listen(stop, roles, heard)
        finally:
            # All at once, but before whom they talk to.
            clients = actors if group.place == "learner" else [*actors, learner]
            for said in roles.end(clients):
                _keep(said.values, heard)
            roles.end([learner])


def _serve(stop: Stop, group: Group, places: Places, roles: Supervisor) -> str:
    """Where the server is, or where the learner is to listen; empty when stopped before."""
    if group.place == "learner":
        return places.listens(group)[0]
    if group.place == "redis":
        return start_redis(roles)
    listen = [word for address in places.listens(group) for word in ("--listen", address)]
    server = roles.start(
        "server",
        ["serve", "--json", "--insecure", "--poll", group.transport.poll, *listen],
        program=places.server,
    )
    ready = _first_address(roles.wait_for_line(server, "ready", READY_DEADLINE_S))
    if ready:
        pin_process(server.pid, places.cores.server)
    return ready


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
    group: Group, effort: Effort, places: Places, ready: str, turn: int, training_s: float
) -> list[str]:
    address = ready if group.place == "learner" else places.reached(group, ready, None)
    words = [*_common(group, "learner", address, places.cores.client), "--stay"]
    words += ["--layouts", "a" if group.place == "learner" else "bc", "--turn", str(turn)]
    words.append("--insecure")  # whoever measures has chosen where
    words += ["--batches", ",".join(map(str, group.batches)) or "none"]
    words += ["--calls", str(effort.calls), "--budget-s", str(effort.budget_s)]
    words += ["--warm-up", str(effort.warm_up)]
    replay_core = places.cores.client if group.crowded else places.cores.server
    if group.place == "learner" and replay_core is not None:
        words += ["--replay-core", str(replay_core)]
    if group.training:
        words += ["--training-s", str(training_s)]
    return words


def _actor(group: Group, places: Places, ready: str, index: int) -> list[str]:
    core = places.cores.server if group.crowded else places.actor_core(index)
    return _common(group, "actor", places.reached(group, ready, index), core)


def _listen(stop: Stop, roles: Supervisor, heard: Heard) -> None:
    """Until the learner has measured everything. What actors did last they say when they end."""
    finished = False
    while not finished and not stop.is_set():
        events = roles.wait(_QUIET_S)
        for event in events:
            if isinstance(event, Ended):
                raise _failure(event.process)
            _keep(event.values, heard)
            finished |= event.values.get("event") == FINISHED
        if not events and not stop.is_set():
            raise TransportError(
                f"the roles said nothing for {_QUIET_S:g} s",
                "measure less, or look at what else the machine does",
            )


def _keep(values: dict[str, Any], heard: Heard) -> None:
    if values.get("event") == "phase":
        heard.phases.append(Phase.from_json(values))
    elif values.get("event") == "appends":
        heard.appends += [Appends(**chunk) for chunk in values["chunks"]]


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
