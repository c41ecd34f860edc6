"""The learner: batches in, priorities and params out, until the goal or a budget is reached."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch

from drlnet.algos import find_algo
from drlnet.client import Batch, Client, Table, importance_weights
from drlnet.config import Config
from drlnet.envs import find_spaces
from drlnet.errors import BadPriority, DrlnetError, RunFolderError
from drlnet.metrics import RunFolder, RunRecords
from drlnet.metrics.process import gpu_figures, process_figures
from drlnet.metrics.stages import Rates, Stages
from drlnet.nets.params import pack, save
from drlnet.roles.divergence import diverged
from drlnet.roles.gate import Gate
from drlnet.roles.reach import reach
from drlnet.roles.seeds import role_seed
from drlnet.roles.stop import Stop
from drlnet.roles.table import open_table

Reason = Literal["goal", "budget", "interrupted"]
UpdatePriorities = Callable[[npt.NDArray[np.uint64], npt.NDArray[np.float32]], Any]


@dataclass(frozen=True)
class LearnResult:
    """What a learner did. Its checkpoint holds the params that its gate found best."""

    stopped: Reason
    learner_steps: int
    env_steps: int
    gate_return_mean: float  # of these params; NaN when there was no look
    wall_clock_s: float
    params: Mapping[str, torch.Tensor]  # those of the checkpoint
    failure: RunFolderError | None = None  # why the run's folder does not hold all of it


def learn(
    config: Config, server: str, run: RunFolder, stop: Stop, note: Callable[[str], None]
) -> LearnResult:
    """The learner process. Errors: ReplayTimeout when no batch comes; the client's own.

    What was learned until then is kept in the run's folder. KeyboardInterrupt when stopped before
    there is anything to keep. note: told that the server is waited for.
    """
    torch.set_num_threads(config.learner.torch_threads)
    with reach(server, "learner", config.server.poll, stop, note) as client:
        with stop.interrupts():
            learning = Learning(config, client, run, stop)
        try:
            _learn(config, learning, stop)
            return learning.close()
        except DrlnetError:
            learning.keep()
            raise


def _learn(config: Config, learning: Learning, stop: Stop) -> None:
    depth = max(1, config.replay.prefetch)
    batches = learning.table.stream(config.replay.batch_size, depth=depth)
    while not learning.finished(stop.is_set()):
        try:
            with stop.interrupts():
                batch = next(batches)
        except KeyboardInterrupt:
            continue
        learning.step(batch, learning.table.update_priorities_async)


class Learning:
    """The learner's state and one step of it. Not thread-safe."""

    def __init__(self, config: Config, client: Client, run: RunFolder, stop: Stop):
        self._config, self._client, self._run = config, client, run
        self._started = time.monotonic()
        self._stages = Stages("sample", "learn", "update", "publish", "evaluate")
        spaces = find_spaces(config.env.id, config.env.kwargs, config.env.vectorization)
        algo = find_algo(config.algo.name)
        seed = role_seed(config.run.seed, "learner")
        self._learner = algo.Learner(config.algo, spaces, config.learner.device, seed)
        self.table: Table = open_table(client, config, spaces)
        self._gate = Gate(config, stop)
        self._stopped: Reason | None = None
        self._looked_at = self._env_steps = 0
        self._loss = torch.tensor(math.nan)
        self._params_version = 0
        self._records = RunRecords(run, tensorboard=config.run.tensorboard)
        self._stages.ended("other")
        self._rates = Rates()
        self._publish()  # actors wait for the first params

    def step(self, batch: Batch, update_priorities: UpdatePriorities) -> None:
        """Learns from one batch; publishes, looks at the goal and reports when it is time to."""
        config, stages = self._config, self._stages
        stages.ended("sample")
        weights = importance_weights(batch, self._importance_exponent())
        loss, priorities = self._learner.learn(batch, weights)
        stages.ended("learn")
        try:
            update_priorities(batch.keys, priorities)
        except BadPriority as error:
            raise diverged(config.env.id, error) from error
        stages.ended("update")
        self._env_steps = batch.env_steps
        steps = self._learner.steps
        if steps % config.learner.publish_period == 0:
            self._publish()
        if steps % config.learner.eval_period == 0:
            self._look()
        self._loss = loss
        if self._rates.due(config.learner.report_interval_s):
            self._report()
        stages.ended("other")

    def finished(self, interrupted: bool) -> bool:
        """Whether the goal or a budget is reached, or someone asked to stop."""
        run = self._config.run
        spent = (
            (run.max_seconds is not None and time.monotonic() - self._started >= run.max_seconds)
            or (run.max_env_steps is not None and self._env_steps >= run.max_env_steps)
            or (run.max_learner_steps is not None and self._learner.steps >= run.max_learner_steps)
        )
        if self._stopped is None and (interrupted or spent):
            self._stopped = "interrupted" if interrupted else "budget"
        return self._stopped is not None

    def close(self) -> LearnResult:
        """Saves the checkpoint, and sums up."""
        if self._stopped == "budget" and self._learner.steps != self._looked_at:
            self._look()  # the newest params may be the best
        unsaved: RunFolderError | None = None
        try:
            self._save()
        except RunFolderError as error:  # the result can be told all the same
            unsaved = error
        self._report()
        self._records.close()
        return LearnResult(
            stopped=self._stopped or "interrupted",
            learner_steps=self._learner.steps,
            env_steps=self._env_steps,
            gate_return_mean=self._gate.best_mean,
            wall_clock_s=time.monotonic() - self._started,
            params=self._best()[0],
            failure=unsaved or self._records.failure,
        )

    def keep(self) -> None:
        """Saves what there is to save when the server is lost."""
        if self._learner.steps:
            self._save()
        self._records.close()

    def _save(self) -> None:
        params, steps = self._best()
        architecture = self._learner.online.architecture
        save(self._run.checkpoint_path, pack(params, architecture, self._facts(steps)))

    def _best(self) -> tuple[dict[str, torch.Tensor], int]:
        """The params that the gate found best, the newest without a look; and at which step."""
        if self._gate.best_params is not None:
            return self._gate.best_params, self._gate.best_steps
        return self._learner.online.state_dict(), self._learner.steps

    def _look(self) -> None:
        self._looked_at = self._learner.steps
        try:
            if self._gate.look(self._learner.online, self._looked_at):
                self._stopped = "goal"
        except KeyboardInterrupt:
            pass  # what was learned is kept without a look at it
        self._stages.ended("evaluate")

    def _importance_exponent(self) -> float:
        """beta: from its start to its end over its annealing; without one it stays at the start."""
        replay = self._config.replay
        steps = replay.importance_anneal_steps or self._config.run.max_learner_steps
        share = min(1.0, self._learner.steps / steps) if steps else 0.0
        start, end = replay.importance_exponent_start, replay.importance_exponent_end
        return start + share * (end - start)

    def _publish(self) -> None:
        net = self._learner.online
        self._params_version = self._client.publish(
            pack(net.state_dict(), net.architecture, self._facts(self._learner.steps))
        )
        self._stages.ended("publish")

    def _facts(self, learner_steps: int) -> dict[str, str]:
        return {"env": self._config.env.id, "learner_steps": str(learner_steps)}

    def _report(self) -> None:
        steps, stages = self._learner.steps, self._stages.read()
        per_s = self._rates.read(steps=steps, sample_s=stages["stage.sample_s"])
        values: dict[str, float | int | str] = {
            "role": "learner",
            "learner_steps": steps,
            "learner_steps_per_s": per_s["steps"],
            "env_steps": self._env_steps,
            "loss": float(self._loss),
            "q_mean": self._learner.q_mean,
            "eval_return": self._gate.last_mean,
            "eval_return_best": self._gate.best_mean,
            "importance_exponent": self._importance_exponent(),
            "sample_wait_share": per_s["sample_s"],
            "params_version": self._params_version,
            "batch_size": self._config.replay.batch_size,
            **stages,
            **process_figures(),
            **gpu_figures(self._config.learner.device),
        }
        self._client.report(values)
        self._records.add(values, self._client.stats())
