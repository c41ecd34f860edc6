"""The gate: greedy evaluations while learning, which keep the best params and say when to stop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from drlnet.config import Config, EvalConfig
from drlnet.metrics import RunFolder
from drlnet.nets.params import pack, read_metadata, save, unpack
from drlnet.roles.evaluate import Purpose, evaluate
from drlnet.roles.stop import Stop

Params = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Best:
    """The best params that a gate has seen."""

    params: Params
    learner_steps: int  # that made them
    mean: float  # of their last evaluation
    confirmed: bool  # that was their second

    @property
    def key(self) -> tuple[bool, float]:
        """Params that were evaluated twice are known better than those that looked good once."""
        return (self.confirmed, -math.inf if math.isnan(self.mean) else self.mean)

    def episodes(self, config: EvalConfig) -> int:
        """How many the mean is of."""
        if math.isnan(self.mean):
            return 0
        return config.report_episodes if self.confirmed else config.gate_episodes


class Gate:
    """Looks twice: eval.gate_episodes on one set of seeds and, when their mean reaches the goal,
    eval.report_episodes on another. A mean of 20 reaches a goal by luck now and then; a stop is
    final, so it is worth the second look. Neither set is the one that is reported afterwards.
    """

    def __init__(self, config: Config, stop: Stop, best: Best | None = None):
        self._config, self._stop = config, stop
        self.best = best
        self.last_mean = math.nan  # of the newest params on the gate's seeds

    def evaluate(
        self, params: Params, learner_steps: int, max_seconds: float | None = None
    ) -> bool:
        """Evaluates the params that this many learner steps have made.

        True when they reach run.goal in both evaluations. KeyboardInterrupt when asked to stop
        meanwhile: what it knew before holds.
        """
        config, goal = self._config, self._config.run.goal
        params = {name: tensor.detach().cpu().clone() for name, tensor in params.items()}
        mean = self._mean(params, config.eval.gate_episodes, "gate", max_seconds)
        self.last_mean = mean
        confirmed = reached = False
        if goal is not None and mean >= goal:
            mean = self._mean(params, config.eval.report_episodes, "confirm", max_seconds)
            confirmed, reached = True, mean >= goal
        found = Best(params, learner_steps, mean, confirmed)
        if not math.isnan(mean) and (self.best is None or found.key > self.best.key):
            self.best = found
        return reached

    def _mean(
        self, params: Params, episodes: int, purpose: Purpose, max_seconds: float | None
    ) -> float:
        with self._stop.interrupts():  # episodes may be long
            return evaluate(self._config, params, episodes, purpose, max_seconds).mean


def write_best(path: Path, best: Best, architecture: str, facts: Mapping[str, str]) -> None:
    """Keeps them in a file, with what is known of them. Raises RunFolderError."""
    known = {
        "learner_steps": str(best.learner_steps),
        "confirmed": str(int(best.confirmed)),
        "mean": repr(best.mean),
    }
    save(path, pack(best.params, architecture, {**facts, **known}))


def read_best(run: RunFolder, architecture: str) -> Best | None:
    """The better of what the evaluator kept and the checkpoint that a run goes on from; None:
    nothing."""
    paths = [path for path in (run.best_path, run.checkpoint_path) if path.is_file()]
    return max((_read(path, architecture) for path in paths), key=lambda one: one.key, default=None)


def _read(path: Path, architecture: str) -> Best:
    blob = path.read_bytes()
    facts = {"mean": "nan", "confirmed": "0", **read_metadata(blob)}
    return Best(
        params=unpack(blob, architecture, str(path)),
        learner_steps=int(facts["learner_steps"]),
        mean=float(facts["mean"]),
        confirmed=facts["confirmed"] == "1",
    )
