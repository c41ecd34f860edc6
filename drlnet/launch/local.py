"""A whole run: server, learner and actors as processes, watched until the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from drlnet.client import Client
from drlnet.config import Config
from drlnet.errors import DrlnetError, ReplayTimeout, RoleFailed, SessionLost, TransportError
from drlnet.launch.actors import Actors
from drlnet.launch.plan import Plan, Role, local_plan
from drlnet.launch.process import Watched
from drlnet.launch.restarts import Restarts
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Group, Said, Supervisor
from drlnet.metrics import RunFolder

STARTING = "starting the learner and actors"
READING_INTERVAL_S = 0.5
READY_DEADLINE_S = 60.0
STATE_DEADLINE_S = 1800.0  # of a server that reads its state first: a disk may take long
ANSWER_DEADLINE_S = 3.0
REACH_AGAIN_S = 10.0  # of a server that has not answered yet

Show = Callable[[Mapping[str, Any]], None]


@dataclass
class LocalRun:
    """One run. `show` is given flat readings: the server's, plus "run.phase" and its like.

    plan: what is started; without one, local_plan(). within: where, for it to be watched there;
    without one, on this machine. What a signal ends is started again, as Restarts says: a learner
    goes on from its state, and so does a server that keeps one; else its end is the run's.

    Threading: main thread only (see guard).
    """

    config: Config
    folder: RunFolder
    stop: Stop
    show: Show
    grace_s: float = 5.0
    plan: Plan | None = None
    within: AbstractContextManager[Group] | None = None
    failure: DrlnetError | None = None  # of a learner that could tell its result all the same
    _shards: list[Watched] = field(default_factory=list)  # of other hosts
    _lost: list[str] = field(default_factory=list)  # of them, in words
    # By role: learner, infer; a server that keeps its state.
    _kept: dict[str, tuple[Watched, Restarts]] = field(default_factory=dict)
    _result: dict[str, Any] = field(default_factory=dict)
    _actors: Actors | None = None
    _phase: str = "starting"
    _progress: str = ""  # of it
    _reading: dict[str, Any] = field(default_factory=dict)
    _reported: dict[str, str | int] = field(default_factory=dict)
    _client: Client | None = None  # reads the server
    _reach_s: float = 0.0  # when to try it, while there is none

    def run(self) -> dict[str, Any]:
        """Runs to the goal or a budget; the learner's result, empty when stopped before it.

        Raises the error of a role that fails; every process has ended when this returns.
        """
        plan = self.plan or local_plan(self.config)
        within = self.within or Supervisor(
            self.stop,
            log_folder=self.folder.path,
            grace_s=self.grace_s,
            less_memory="lower replay.capacity or actor.num_actors",
        )
        with within as group:
            self._tell(phase="starting the server")
            address, key = self._start_server(group, plan.role("server"))
            if self.stop.is_set():
                return {}
            with self.folder.going_on(address, key):
                actors = self._start_roles(group, plan, address)
                try:
                    return self._watch(group, plan, address, actors)
                finally:
                    if self._client is not None:
                        self._client.close()
                    # Before the server, which they say good-bye to.
                    group.end(self._clients(actors))

    def _start_server(self, group: Group, role: Role) -> tuple[str, str | None]:
        server = group.start("server", role.args())
        kept = "--state" in role.argv or self.config.server.state is not None
        deadline_s = STATE_DEADLINE_S if kept else READY_DEADLINE_S
        ready = group.wait_for_line(server, "ready", deadline_s)
        address = str(ready.get("addresses", [""])[0])
        if kept and address.startswith("udp:"):  # where clients find it again
            self._kept["server"] = server, Restarts(self.config.run.learner_restarts)
        return address, ready.get("server_key")

    @property
    def actor_restarts(self) -> int:
        """How many actors were started again."""
        return 0 if self._actors is None else self._actors.restarts

    @property
    def learner_restarts(self) -> int:
        """How often the learner was started again."""
        return self._count("learner")

    @property
    def server_restarts(self) -> int:
        """How often the server was started again."""
        return self._count("server")

    def _count(self, name: str) -> int:
        return self._kept[name][1].count if name in self._kept else 0

    @property
    def failures(self) -> list[str]:
        """What has failed in the run without ending it: in the order of roles."""
        kept = [words for _, restarts in self._kept.values() for words in restarts.failures]
        return [*self._lost, *kept] + (self._actors.failures if self._actors is not None else [])

    def outlived(self) -> dict[str, Any]:
        """What the run went on after: fields of its result."""
        return {
            "actor_restarts": self.actor_restarts,
            "learner_restarts": self.learner_restarts,
            "server_restarts": self.server_restarts,
            "failures": self.failures,
        }

    def _start_roles(self, group: Group, plan: Plan, address: str) -> Actors:
        self._tell(phase=STARTING)
        if plan.has("shard"):
            role = plan.role("shard")
            for number in range(role.count):
                args = role.args(server=address)
                self._shards.append(group.start(f"shard-{number}", args))
        # The learner first: it has the most to import, and opens the table.
        for name in ("learner", "infer"):
            if plan.has(name):
                process = group.start(name, plan.role(name).args(server=address))
                self._kept[name] = process, Restarts(self.config.run.learner_restarts)
        role = plan.role("actor")
        args, restarts = role.args(server=address), self.config.run.actor_restarts
        self._actors = Actors(group, args, role.count, restarts)
        self._actors.start()
        return self._actors

    def _clients(self, actors: Actors) -> list[Watched]:
        near = [process for name, (process, _) in self._kept.items() if name != "server"]
        return [*near, *actors.processes]

    def _watch(self, group: Group, plan: Plan, address: str, actors: Actors) -> dict[str, Any]:
        next_reading = time.monotonic()
        while not self.stop.is_set():
            due_s = [restarts.due_in_s for _, restarts in self._kept.values()]
            left = min(next_reading - time.monotonic(), actors.due_in_s, *due_s)
            for event in group.wait(max(0.0, left)):
                if isinstance(event, Said) and event.process is self._learner:
                    self._heed(event.values, actors)
                elif isinstance(event, Ended) and actors.has(event.process):
                    actors.heed(event)
                elif isinstance(event, Ended) and event.process in self._shards:
                    self._lost.append(f"{event.process.name} {event.process.ending}")
                elif isinstance(event, Ended) and not event.process.stopping:
                    if event.process is self._learner and (self._result or event.returncode == 0):
                        return self._learned(event)
                    self._ended(event)
            actors.start_due()
            self._start_due(group, plan, address)
            if time.monotonic() >= next_reading:
                next_reading = time.monotonic() + READING_INTERVAL_S
                self._read(address)
        self._tell(phase="stopping")
        # A result may have been told by now, or be among a learner's last words.
        for said in group.end(self._clients(actors)):
            if said.process is self._learner:
                self._keep(said.values)
        return self._result

    @property
    def _learner(self) -> Watched:
        return self._kept["learner"][0]

    def _ended(self, ended: Ended) -> None:
        """Has what goes on from its state started again; raises the error of any other."""
        error = ended.process.failure()
        for name, (process, restarts) in self._kept.items():
            if process is ended.process:
                if name == "server" and process.lost:  # with its address, and perhaps its disk
                    raise error
                return restarts.heed(ended)
        if ended.process.name == "server" and ended.returncode < 0:
            kept = "a server with --keep-replay over udp is started again and goes on"
            raise type(error)(error.cause, f"{error.remedy}; {kept}") from error
        raise error

    def _start_due(self, group: Group, plan: Plan, address: str) -> None:
        for name, (_, restarts) in self._kept.items():
            if restarts.due():
                args = plan.role(name).args(server=address)
                if name == "server":
                    args[args.index("--listen") + 1] = address
                self._kept[name] = group.start(name, args), restarts

    def _heed(self, said: Mapping[str, Any], actors: Actors) -> None:
        if said.get("event") == "trained":
            # The report needs no experience: the actors' cores are the learner's now.
            self._tell(phase="evaluating")
            actors.end()
        elif said.get("event") == "evaluating":
            self._progress = str(said["progress"])
            self._tell()
        self._keep(said)

    def _keep(self, said: Mapping[str, Any]) -> None:
        if "eval_return_mean" in said:
            self._result = dict(said)

    def _read(self, address: str) -> None:
        """Reads the server, for people; the roles may reach it where this machine does not."""
        try:
            if self._client is None and time.monotonic() >= self._reach_s:
                self._reach_s = time.monotonic() + REACH_AGAIN_S
                self._client = Client(address, name="run", timeout=ANSWER_DEADLINE_S)
            if self._client is not None:
                self._report(self._client)
                self._reading = dict(self._client.stats())
        except (TransportError, ReplayTimeout, SessionLost):
            # The server's end, if that is the reason, is the supervisor's to tell.
            self._reading = {}
        peers = [key for key in self._reading if key.startswith("peer.")]
        started = all(
            any(key[5:].startswith(role) for key in peers) for role in ("learner", "actor")
        )
        self._tell(phase="training" if started and self._phase == STARTING else None)

    @property
    def _own(self) -> dict[str, str | int]:
        return {
            "phase": self._phase,
            "progress": self._progress,
            "actor_restarts": self.actor_restarts,
            "learner_restarts": self.learner_restarts,
        }

    def _report(self, client: Client) -> None:
        """Lets other commands that watch this server know what the run does."""
        told = {"role": "run", **self._own}
        if told != self._reported:
            client.report(told)
            self._reported = told

    def _tell(self, phase: str | None = None) -> None:
        self._phase = phase or self._phase
        # The server's starts are known to its clients without a word of ours.
        own = {**self._own, "server_restarts": self.server_restarts}
        self.show({**self._reading, **{f"run.{key}": value for key, value in own.items()}})

    def _learned(self, ended: Ended) -> dict[str, Any]:
        if not self._result:
            raise RoleFailed(
                "the learner ended without a result",
                f"see {self.folder.path}/learner.log",
            )
        if ended.returncode != 0:
            self.failure = ended.process.failure()
        return self._result
