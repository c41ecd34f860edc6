"""What an environment returns against what its spaces say: for its author, where they differ.

gymnasium copies observations into an array of the space's shape and dtype. In its own process it
fails where that cannot be, without a word of either shape, so that the environments are looked at
then, and their steps cost nothing until then. In a worker it stretches and rounds what does not
fit, so that each step is looked at there.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import SyncVectorEnv
from gymnasium.vector.utils import iterate

REMEDY = "have reset() and step() return what observation_space says, or correct the space"
SCALARS = "have step() return one number as reward, and a truth value as terminated and truncated"
FORMS = (
    "return (observation, info) from reset() and (observation, reward, terminated, truncated, "
    "info) from step()"
)
Breach = tuple[str, str]  # cause and remedy


def of_observation(space: gym.Space[Any], obs: Any, name: str = "observation") -> Breach | None:
    """How an observation breaks its space in shape or dtype; None where it does not."""
    if isinstance(space, gym.spaces.Dict):
        if not isinstance(obs, Mapping):
            return f"its {name} is of type {type(obs).__name__}, where its space is a Dict", REMEDY
        for key, inner in space.spaces.items():
            if key not in obs:
                return f"its {name} lacks the key {key!r} of its space", REMEDY
            if found := of_observation(inner, obs[key], f"{name}[{key!r}]"):
                return found
        return None
    if space.dtype is None or space.shape is None:
        return None  # of a kind that no table holds
    got = _form(obs)
    if not isinstance(got, str):
        if got.shape == space.shape and np.can_cast(got.dtype, space.dtype, "same_kind"):
            return None
        got = _named(got.dtype, got.shape)
    said = _named(space.dtype, space.shape)
    return f"its {name} is {got}, where its space says {said}", REMEDY


def of_step(space: gym.Space[Any], returned: tuple[Any, Any, Any, Any, Any]) -> Breach | None:
    """How a step's observation, reward or ends break what is asked of them."""
    obs, *scalars, _ = returned
    for name, value in zip(("reward", "terminated", "truncated"), scalars, strict=True):
        got = _form(value)
        kinds, said = ("biuf", "one number") if name == "reward" else ("biu", "one truth value")
        if isinstance(got, str) or got.shape or got.dtype.kind not in kinds:
            told = got if isinstance(got, str) else _named(got.dtype, got.shape)
            return f"its {name} is {told}, where it should be {said}", SCALARS
    return of_observation(space, obs)


def among(envs: SyncVectorEnv, actions: Any, error: Exception) -> Breach | None:
    """How one of these has made a step or a reset fail, if one has; actions: None of a reset.

    Where it is not seen in the observations, all take that step once more: their episodes have
    ended anyway.
    """
    if of_forms(error):
        return None
    files = [Path(frame.filename) for frame in traceback.extract_tb(error.__traceback__)]
    vector = Path(gym.vector.__file__).parent
    inner = [vector in file.parents for file in files]
    if True not in inner or not (inner[-1] or "numpy" in files[-1].parts):
        return None  # raised by the environment itself
    for env, obs in zip(envs.envs, envs._env_obs, strict=True):
        if found := of_observation(env.observation_space, obs):
            return found
    if actions is None:
        return None
    for env, action in zip(envs.envs, iterate(envs.action_space, actions), strict=True):
        with suppress(Exception):  # the first error is the one to tell
            if found := of_step(env.observation_space, env.step(action)):
                return found
    return None


def of_forms(error: Exception) -> bool:
    """Whether reset() or step() has returned more or fewer values than it should."""
    return isinstance(error, ValueError) and "values to unpack (expected" in str(error)


def _form(value: Any) -> np.ndarray[Any, Any] | str:
    """The value as an array, or words for what is none."""
    if value is None:
        return "None"
    try:
        return np.asarray(value)
    except ValueError:
        return f"a {type(value).__name__} of unequal lengths"


def _named(dtype: Any, shape: tuple[int, ...]) -> str:
    return f"{np.dtype(dtype)}{list(shape)}"
