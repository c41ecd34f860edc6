"""The gate: greedy evaluations while learning, which keep the best params and say when to stop."""

from __future__ import annotations

import math

import torch
from torch import nn

from drlnet.config import Config
from drlnet.roles.evaluate import Purpose, evaluate
from drlnet.roles.stop import Stop

Params = dict[str, torch.Tensor]


class Gate:
    """Looks twice: eval.gate_episodes on one set of seeds and, when their mean reaches the goal,
    eval.report_episodes on another. A mean of 20 reaches a goal by luck now and then; a stop is
    final, so it is worth the second look. Neither set is the one that is reported afterwards.
    """

    def __init__(self, config: Config, stop: Stop):
        self._config, self._stop = config, stop
        self._best_key = (False, -math.inf)
        self.best_params: Params | None = None
        self.best_steps = 0  # learner steps that made them
        self.best_mean = math.nan  # of the best params' last look
        self.last_mean = math.nan  # of the newest params on the gate's seeds

    def look(self, net: nn.Module, learner_steps: int) -> bool:
        """Evaluates a network as it is after so many learner steps.

        True when it reaches run.goal in both looks. KeyboardInterrupt when asked to stop meanwhile:
        what it knew before holds.
        """
        config, goal = self._config, self._config.run.goal
        params = {name: tensor.detach().cpu().clone() for name, tensor in net.state_dict().items()}
        mean = self._mean(params, config.eval.gate_episodes, "gate")
        self.last_mean = mean
        confirmed = reached = False
        if goal is not None and mean >= goal:
            mean = self._mean(params, config.eval.report_episodes, "confirm")
            confirmed, reached = True, mean >= goal
        # What was looked at twice is known better than what looked good once.
        if (confirmed, mean) > self._best_key:
            self._best_key = (confirmed, mean)
            self.best_params, self.best_mean = params, mean
            self.best_steps = learner_steps
        return reached

    def _mean(self, params: Params, episodes: int, purpose: Purpose) -> float:
        with self._stop.interrupts():  # episodes may be long
            return evaluate(self._config, params, episodes, purpose).mean
