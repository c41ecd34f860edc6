"""Epsilon-greedy exploration with an epsilon for each stream, as in Ape-X (Horgan et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from drlnet.config import PolicySettings, setting
from drlnet.policies.ladder import epsilon_ladder

if TYPE_CHECKING:
    from drlnet.envs import Streams


@dataclass(frozen=True)
class EpsilonGreedySettings(PolicySettings):
    """Each stream explores with an epsilon of its own, from greedy to random: a ladder.

    epsilon_exponent = 0 is the same epsilon_base for all of them.
    """

    epsilon_base: float = setting(0.4, "epsilon = base^(1 + exponent x u)", low=0, high=1)
    epsilon_exponent: float = setting(7.0, "the spread of the exploration ladder", low=0)
    epsilon_decay_env_steps: int = setting(
        0, "env_steps of all actors over which epsilon goes from 1 to what the ladder says", low=0
    )
    ladder: Literal["radical", "apex"] = setting(
        "radical", "u: radical inverse of the stream's ordinal, or index / total as in Ape-X"
    )


class EpsilonGreedy:
    """Chooses the best action, except with probability epsilon[stream] a uniformly random one.

    Draws from the streams' generator. Not thread-safe.
    """

    def __init__(self, settings: PolicySettings, streams: Streams):
        assert isinstance(settings, EpsilonGreedySettings)
        apex = settings.ladder == "apex"
        self.epsilons = epsilon_ladder(
            streams.first + np.arange(streams.count) if apex else streams.ordinals,
            base=settings.epsilon_base,
            exponent=settings.epsilon_exponent,
            ladder=settings.ladder,
            total=streams.total,
        )
        self._rng = streams.rng
        self._decay = settings.epsilon_decay_env_steps / streams.total  # steps of each stream
        self._steps = streams.env_steps / streams.total

    @property
    def current(self) -> npt.NDArray[np.float64]:
        """Epsilon of each stream now, [M]."""
        if self._steps >= self._decay:
            return self.epsilons
        return 1 - self._steps / self._decay * (1 - self.epsilons)

    def choose(
        self,
        values: npt.NDArray[Any],
        valid: npt.NDArray[np.bool_] | None = None,
        mask: npt.NDArray[np.bool_] | None = None,
    ) -> npt.NDArray[np.int64]:
        """Actions [M] from action values [M, num_actions].

        valid: the actions to choose among, bool [M, num_actions], at least one of each row; the
        values of the others are -inf. None: all of them. mask: bool [M], the streams that take a
        step; None: all.
        """
        action: npt.NDArray[np.int64] = values.argmax(1)
        epsilons = self.current
        self._steps += 1 if mask is None else float(mask.mean())
        if not epsilons.any():
            return action
        explore = self._rng.random(len(action)) < epsilons
        if valid is None:
            random = self._rng.integers(values.shape[1], size=len(action))
        else:
            random = np.where(valid, self._rng.random(valid.shape), -1.0).argmax(1)
        return np.where(explore, random, action)
