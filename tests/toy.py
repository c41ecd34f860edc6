"""A toy environment whose every observation says where it stands; registered with gymnasium."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Toy(gym.Env[np.ndarray, np.int64]):
    """Episodes of 1 to `longest` steps, some terminated, some truncated, drawn from the seed.

    obs = [episode, step, newest action]; reward = 10 * episode + step + action / 10.
    crash_at: raises in that step of every episode.
    """

    def __init__(self, longest: int = 6, crash_at: int | None = None):
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(4, start=-1)
        self._longest, self._crash_at = longest, crash_at
        self._episode = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._episode = -1
        self._episode += 1
        self._step = 0
        self._length = int(self.np_random.integers(1, self._longest + 1))
        self._kind = int(self.np_random.integers(3))  # terminated, truncated, both at once
        return self._observe(0), {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._step += 1
        if self._step == self._crash_at:
            raise RuntimeError("the toy broke")
        ended = self._step >= self._length
        reward = 10.0 * self._episode + self._step + float(action) / 10
        terminated, truncated = ended and self._kind != 1, ended and self._kind != 0
        return self._observe(int(action)), reward, terminated, truncated, {}

    def _observe(self, action: int) -> np.ndarray:
        return np.array([self._episode, self._step, action], dtype=np.float32)


TOY = "drlnet/Toy-v0"
if TOY not in gym.registry:
    gym.register(TOY, Toy)
