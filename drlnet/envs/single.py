"""One environment in gymnasium's plain form, as a run's policy takes its observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from drlnet.config import EnvConfig, plugins
from drlnet.envs.atari import AtariRows
from drlnet.envs.make import failed, make_envs
from drlnet.envs.registry import find_spec
from drlnet.envs.settings import AtariSettings
from drlnet.errors import ConfigError


def make_single(
    env: EnvConfig, max_episode_steps: int | None = None, **kwargs: Any
) -> gym.Env[Any, Any]:
    """The environment of the section [env], with its wrappers, as an evaluation plays it.

    max_episode_steps: None: as env.kwargs or its registration says.
    Errors: as make_envs.
    """
    given = {**env.kwargs, **kwargs}
    if isinstance(env, AtariSettings):
        return AtariGame(replace(env, kwargs=given), max_episode_steps)
    spec = find_spec(env.id)
    if max_episode_steps is not None:
        given["max_episode_steps"] = max_episode_steps
    try:
        made: gym.Env[Any, Any] = gym.make(spec, **given)
        for name in env.wrappers:
            made = plugins.find_object("env.wrappers", name)(made)
    except ConfigError:
        raise
    except Exception as error:  # an environment is someone else's code
        what = f"environment {env.id} cannot be made"
        raise failed(what, error, "check the settings of [env]") from error
    return made


class AtariGame(gym.Env[npt.NDArray[np.uint8], np.int64]):
    """A game as its rows are: one frame an observation, no-ops at the start, frames skipped."""

    def __init__(self, env: AtariSettings, max_episode_steps: int | None = None):
        envs, _ = make_envs(env, 1, training=False, max_episode_steps=max_episode_steps)
        assert isinstance(envs, AtariRows), "make_envs makes them of AtariSettings"
        self._envs = envs
        self.observation_space = envs.envs.single_observation_space
        self.action_space = envs.envs.single_action_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.uint8], dict[str, Any]]:
        """Begins a new game; equal seeds begin equal ones."""
        super().reset(seed=seed)
        return self._envs.reset(seed).obs[0], {}

    def step(
        self, action: np.int64
    ) -> tuple[npt.NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Holds an action for env.frame_skip frames."""
        _, rows = self._envs.step(np.array([action]))
        return (
            rows.obs[0],
            float(rows.reward[0]),
            bool(rows.terminated[0]),
            bool(rows.truncated[0]),
            {},
        )

    def close(self) -> None:
        """Ends the console."""
        self._envs.close()
