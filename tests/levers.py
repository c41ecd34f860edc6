"""An environment of two levers: Dict observations, MultiDiscrete actions, an action mask."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

SIZES = (2, 3)
STEPS = 5


class Levers(gym.Env[Any, Any]):
    """Each of STEPS steps some of the 6 combinations are valid, as an observation and the info say.

    The last valid one is worth 1, any other 0; one that is not valid raises. Episodes are cut by a
    time limit of the environment's own (truncated) when they began with an even number of valid
    ones, else they end (terminated).
    masked: whether the info says it. plain: the observation is the array `valid` alone.
    """

    def __init__(self, masked: bool = True, plain: bool = False):
        space = gym.spaces
        self.action_space = space.MultiDiscrete(SIZES, start=[0, -1])
        parts: dict[str, gym.Space[Any]] = {
            "valid": space.MultiBinary(6),
            "clock": space.Dict({"step": space.Discrete(STEPS + 1), "left": space.Box(0, 1, ())}),
            "image": space.Box(0, 255, (2, 2), np.uint8),
        }
        self.observation_space = space.Box(0, 1, (6,)) if plain else space.Dict(parts)
        self._masked, self._plain = masked, plain

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._step = 0
        self._draw()
        self._truncates = int(self.valid.sum()) % 2 == 0
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        index = int(action[0]) * SIZES[1] + int(action[1]) + 1
        if self._masked and not self.valid[index]:
            raise RuntimeError(f"combination {index} is not valid")
        reward = float(index == np.flatnonzero(self.valid)[-1])
        self._step += 1
        self._draw()
        ended = self._step == STEPS
        return (
            self._observe(),
            reward,
            ended and not self._truncates,
            ended and self._truncates,
            self._info(),
        )

    def _draw(self) -> None:
        self.valid = self.np_random.random(6) < 0.4
        self.valid[self.np_random.integers(6)] = True

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.valid.astype(np.int8)} if self._masked else {}

    def _observe(self) -> Any:
        if self._plain:
            return self.valid.astype(np.float32)
        clock = {"step": self._step, "left": np.float32(1 - self._step / STEPS)}
        image = np.full((2, 2), 51 * self._step, np.uint8)
        return {"valid": self.valid.astype(np.int8), "clock": clock, "image": image}


LEVERS = "drlnet/Levers-v0"
if LEVERS not in gym.registry:
    gym.register(LEVERS, Levers)
