"""CartPole-v1 without its velocities: a small task that needs memory.

Importing this registers drlnet/CartPolePositions-v1, with CartPole-v1's limit and threshold.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

_POSITIONS = [0, 2]  # of CartPole's observation: the cart's position, the pole's angle


class CartPolePositions(CartPoleEnv):
    """Shows float32 [2]: the cart's position and the pole's angle. Keywords as CartPole-v1's."""

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        whole = self.observation_space
        assert isinstance(whole, gym.spaces.Box)
        self.observation_space = gym.spaces.Box(whole.low[_POSITIONS], whole.high[_POSITIONS])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begins an episode. Returns the positions and no info."""
        obs, info = super().reset(seed=seed, options=options)
        return obs[_POSITIONS], info

    def step(
        self, action: Any
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Steps as CartPole-v1 does. Returns the positions, and the rest as they are."""
        obs, reward, terminated, truncated, info = super().step(action)  # type: ignore[no-untyped-call]
        return obs[_POSITIONS], float(reward), terminated, truncated, info


gym.register(
    "drlnet/CartPolePositions-v1",
    entry_point="drlnet.envs.cartpole:CartPolePositions",
    max_episode_steps=500,
    reward_threshold=475.0,
)
