"""Epsilon-greedy over a network's Q values, with an epsilon for each stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

State = Any  # what a recurrent policy carries between calls, by stream


class EpsilonGreedy:
    """Acts greedily, except with probability epsilon[stream], when it acts uniformly at random.

    epsilons: [M] by row of `act`. Not thread-safe; draws from its own seeded generator.
    """

    def __init__(
        self, net: nn.Module, num_actions: int, epsilons: npt.ArrayLike, rng: np.random.Generator
    ):
        self.net = net
        self.epsilons = np.asarray(epsilons, dtype=np.float64)
        self._num_actions = num_actions
        self._rng = rng
        self._greedy = not self.epsilons.any()

    def act(
        self,
        obs: npt.NDArray[Any],
        first: npt.NDArray[np.bool_],
        streams: npt.NDArray[np.int64],
        state: State = None,
    ) -> tuple[npt.NDArray[np.int64], State, dict[str, npt.NDArray[np.float32]]]:
        """obs [M, *shape], first [M], streams [M] (ordinals) -> action [M], state, extras.

        extras["q"]: Q values, [M, num_actions] float32; initial priorities come from them.
        """
        with torch.inference_mode():
            q: npt.NDArray[np.float32] = self.net(torch.from_numpy(obs)).numpy()
        action = q.argmax(1)
        if not self._greedy:
            explore = self._rng.random(len(action)) < self.epsilons
            random = self._rng.integers(self._num_actions, size=len(action))
            action = np.where(explore, random, action)
        return action, state, {"q": q}
