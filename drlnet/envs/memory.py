"""Two small tasks that need memory: CartPole-v1 without its velocities, and a T-maze.

Importing this registers drlnet/CartPolePositions-v1, with CartPole-v1's limit and threshold, and
drlnet/TMaze-v0.
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


class TMaze(gym.Env[npt.NDArray[np.float32], np.int64]):
    """A corridor of `length` steps between the sign and the junction (Bakker, 2002).

    Shows float32 [2]: the sign, 1 where the goal is on the left and -1 on the right, at the first
    step alone, then 0; and 1 at the junction, else 0. Actions: 0 walks on, 1 turns left, 2 right.
    A turn at the junction ends the episode, with reward 4 at the goal and -0.1 at the other end.
    A turn in the corridor and a step at the junction change nothing: -0.1. The mean return is
    1.95 at most without memory, and 4 with it.
    """

    _GOAL, _MISTAKE = 4.0, -0.1

    def __init__(self, length: int = 20):
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(3)
        self._length, self._place, self._sign = length, 0, 1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begins an episode at the sign."""
        super().reset(seed=seed)
        self._place, self._sign = 0, int(self.np_random.choice([-1, 1]))
        return np.array([self._sign, 0], np.float32), {}

    def step(
        self, action: np.int64
    ) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Walks on, or turns."""
        at_junction, turn = self._place == self._length, {1: 1, 2: -1}.get(int(action))
        moved = at_junction == (turn is not None)
        right = at_junction and turn == self._sign
        self._place += moved and not at_junction
        reward = self._GOAL if right else 0.0 if moved and not at_junction else self._MISTAKE
        obs = np.array([0, self._place == self._length], np.float32)
        return obs, reward, at_junction and moved, False, {}


gym.register(
    "drlnet/CartPolePositions-v1",
    entry_point="drlnet.envs.memory:CartPolePositions",
    max_episode_steps=500,
    reward_threshold=475.0,
)
gym.register(
    "drlnet/TMaze-v0",
    entry_point="drlnet.envs.memory:TMaze",
    max_episode_steps=60,
    reward_threshold=3.9,
)
