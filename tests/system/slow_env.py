"""An environment whose steps take as long as a file says, from step to step, and show much.

As a program it registers it and goes on as the Python program that it is given.
"""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np


class Slow(gym.Env[np.ndarray, np.int64]):
    """Episodes of 100 steps. step_s: a file with what a step takes; size: floats that it shows."""

    def __init__(self, step_s: str = "", size: int = 4):
        self.observation_space = gym.spaces.Box(-1, 1, (size,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._step_s, self._seen = step_s, np.zeros(size, np.float32)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        return self._seen, {}

    def step(self, action: np.int64) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._step_s:
            time.sleep(float(Path(self._step_s).read_text(encoding="ascii")))  # its work
        self._steps += 1
        return self._seen, 1.0, self._steps >= 100, False, {}


if __name__ == "__main__":
    gym.register("Slow-v0", Slow)
    sys.argv = sys.argv[2:]  # of [this file, python, a program, its arguments]
    runpy.run_path(sys.argv[0], run_name="__main__")
