"""A whole run on this machine: server, learner and actors as processes, watched until the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drlnet.client import Client
from drlnet.config import Config
from drlnet.config.transports import LISTEN
from drlnet.errors import DrlnetError, ReplayTimeout, RoleFailed, SessionLost, TransportError
from drlnet.launch.actors import Actors
from drlnet.launch.process import Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Said, Supervisor
from drlnet.metrics import RunFolder

STARTING = "starting the learner and actors"
READING_INTERVAL_S = 0.5
READY_DEADLINE_S = 30.0
ANSWER_DEADLINE_S = 3.0

Show = Callable[[Mapping[str, Any]], None]


@dataclass
class LocalRun:
    """One run. `show` is given flat readings: the server's, plus "run.phase" and its like.

    Threading: main thread only (see guard).
    """

    config: Config
    folder: RunFolder
    stop: Stop
    show: Show
    grace_s: float = 5.0
    failure: DrlnetError | None = None  # of a learner that could tell its result all the same
    _result: dict[str, Any] = field(default_factory=dict)
    _actors: Actors | None = None
    _inference: list[Process] = field(default_factory=list)  # its process, where there is one
    _phase: str = "starting"
    _progress: str = ""  # of it
    _reading: dict[str, Any] = field(default_factory=dict)
    _reported: dict[str, str | int] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        """Runs to the goal or a budget; the learner's result, empty when stopped before it.

        Raises the error of a role that fails; every process has ended when this returns.
        """
        with Supervisor(
            self.stop,
            log_folder=self.folder.path,
            grace_s=self.grace_s,
            less_memory="lower replay.capacity or actor.num_actors",
        ) as group:
            self._tell(phase="starting the server")
            address = self._start_server(group)
            if self.stop.is_set():
                return {}
            with self.folder.going_on(address):
                learner, actors = self._start_roles(group, address)
                try:
                    with Client(address, name="run", timeout=ANSWER_DEADLINE_S) as client:
                        return self._watch(group, learner, actors, client)
                finally:
                    # Before the server, which they say good-bye to.
                    group.end([learner, *actors.processes, *self._inference])

    def _start_server(self, group: Supervisor) -> str:
        transport = self.config.server.transport
        server = group.start(
            "server",
            [
                *("serve", "--json", "--config", str(self.folder.config_path)),
                *("--listen", LISTEN.get(transport, transport), "--run", str(self.folder.path)),
            ],
        )
        ready = group.wait_for_line(server, "ready", READY_DEADLINE_S)
        return str(ready.get("addresses", [""])[0])

    @property
    def actor_restarts(self) -> int:
        """How many actors were started again."""
        return 0 if self._actors is None else self._actors.restarts

    def _start_roles(self, group: Supervisor, address: str) -> tuple[Process, Actors]:
        config_path = self.folder.config_path
        self._tell(phase=STARTING)
        # The learner first: it has the most to import, and opens the table.
        learner = group.start(
            "learner",
            [
                *("learn", self.config.env.id, "--server", address),
                *("--config", str(config_path), "--json", "--no-view"),
            ],
        )
        if self.config.policy.where == "central":
            self._inference = [
                group.start(
                    "infer",
                    [
                        *("infer", self.config.env.id, "--server", address),
                        *("--config", str(config_path), "--json"),
                    ],
                )
            ]
        self._actors = Actors(group, self.config, config_path, address)
        self._actors.start()
        return learner, self._actors

    def _watch(
        self, group: Supervisor, learner: Process, actors: Actors, client: Client
    ) -> dict[str, Any]:
        next_reading = time.monotonic()
        while not self.stop.is_set():
            left = min(next_reading - time.monotonic(), actors.due_in_s)
            for event in group.wait(max(0.0, left)):
                if isinstance(event, Said) and event.process is learner:
                    self._heed(event.values, actors)
                elif isinstance(event, Ended) and actors.has(event.process):
                    actors.heed(event)
                elif isinstance(event, Ended) and not event.process.stopping:
                    if event.process is learner and (self._result or event.returncode == 0):
                        return self._learned(event)
                    raise event.process.failure()
            actors.start_due()
            if time.monotonic() >= next_reading:
                next_reading = time.monotonic() + READING_INTERVAL_S
                self._read(client)
        self._tell(phase="stopping")
        # A result may have been told by now, or be among a learner's last words.
        for said in group.end([learner, *actors.processes, *self._inference]):
            if said.process is learner:
                self._keep(said.values)
        return self._result

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

    def _read(self, client: Client) -> None:
        try:
            self._report(client)
            self._reading = dict(client.stats())
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
        }

    def _report(self, client: Client) -> None:
        """Lets other commands that watch this server know what the run does."""
        told = {"role": "run", **self._own}
        if told != self._reported:
            client.report(told)
            self._reported = told

    def _tell(self, phase: str | None = None) -> None:
        self._phase = phase or self._phase
        self.show({**self._reading, **{f"run.{key}": value for key, value in self._own.items()}})

    def _learned(self, ended: Ended) -> dict[str, Any]:
        if not self._result:
            raise RoleFailed(
                "the learner ended without a result",
                f"see {self.folder.path}/learner.log",
            )
        if ended.returncode != 0:
            self.failure = ended.process.failure()
        return self._result
