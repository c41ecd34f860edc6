"""Acting in the actor: an agent with its own copy of the params, which appends what it sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from drlnet.algos import make_algorithm, returned
from drlnet.client import Client
from drlnet.config import Config
from drlnet.envs import EnvSpaces, Rows, Streams
from drlnet.metrics.stages import Stages
from drlnet.roles.newest_params import NewestParams
from drlnet.roles.recorder import Recorder
from drlnet.roles.seeds import role_sequence
from drlnet.roles.stop import Stop


class OwnAgent:
    """The agent of one actor. Not thread-safe."""

    def __init__(
        self,
        config: Config,
        client: Client,
        index: int | None,
        spaces: EnvSpaces,
        stages: Stages,
        held: Callable[[float], None] | None,
    ):
        self._config, self._index, self._stages = config, index, stages
        self._algorithm = algorithm = make_algorithm(config, spaces)
        self._newest = NewestParams(client, algorithm)
        self.recorder = Recorder(config, client, algorithm, stages, held)

    def wait(self, stop: Stop) -> None:
        """Waits for the first params, or stop."""
        self._newest.wait(stop)
        self._stages.ended("fetch")

    def start(self) -> np.random.SeedSequence:
        """Leases streams and makes their agent; returns what the environments are seeded by."""
        actor = self._config.actor
        writer = self.recorder.join(0)
        # A lease is this actor's alone, however many were started under one index.
        lease = writer.leases[0]
        seeds = role_sequence(
            *(self._config.run.seed, "actor", lease.ordinal, lease.epoch),
            env_steps_before=self._newest.env_steps_before,
        )
        explore: np.random.SeedSequence
        envs: np.random.SeedSequence
        explore, envs = seeds.spawn(2)
        # A process that joins a run may know of itself alone, a learner of none started by hand.
        total = max(self._newest.streams, actor.num_actors * actor.envs_per_actor)
        index = self._index
        place = int(writer.ordinals[0]) if index is None else index * actor.envs_per_actor
        streams = Streams(
            ordinals=writer.ordinals,
            first=place % total,
            total=total,
            rng=np.random.default_rng(explore),
            env_steps=self._newest.env_steps,
        )
        self.recorder.make_agent(streams, self._newest.params)
        return envs

    def act(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Actions [M] for these rows, which are stored."""
        return self.recorder.record(rows, (0,))

    def refresh(self) -> None:
        """Looks for newer params."""
        self._stages.ended("other")
        agent = self.recorder.agent
        if self._newest.fetch() and agent is not None:
            agent.load(self._newest.params)
        self._stages.ended("fetch")

    @property
    def items_added(self) -> int:
        """The items that this process has added."""
        return self.recorder.items_added

    def flush(self) -> None:
        """Waits until the server holds all that was appended."""
        self.recorder.flush()

    def leave(self) -> None:
        """Breaks the streams: the environments begin anew."""
        self.recorder.leave(0)

    def forsake(self) -> None:
        """Breaks the streams without waiting for what was not stored."""
        self.recorder.leave(0, stores=False)

    def close(self) -> None:
        """Gives the streams back; what was not flushed is dropped."""
        self.recorder.release()

    def reading(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """What the actor reports: its own figures, with those of the agent."""
        agent = self.recorder.agent
        found = {} if agent is None else agent.figures()
        lag = {"params_version": self._newest.version, "policy_lag": self._newest.lag}
        return returned.reading(self._algorithm, "figures", {**own, **lag}, found)
