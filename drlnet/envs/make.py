"""Makes a `RowEnv` of a gymnasium environment by its id; refuses what no agent here can play."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from drlnet.client.specs import Column, Item, Limiter, Sampler, View, native_spec
from drlnet.config import EnvConfig, plugins
from drlnet.envs.atari import AtariRows, make_atari
from drlnet.envs.registry import find_spec
from drlnet.envs.rows import RowEnv
from drlnet.envs.settings import AtariSettings
from drlnet.errors import ConfigError, UnknownEnvironment


@dataclass(frozen=True)
class EnvSpaces:
    """What a policy and a table have to know about an environment."""

    obs_shape: tuple[int, ...]
    obs_dtype: str  # numpy's name: "float32" or "uint8"
    num_actions: int
    first_action: int  # of the environment's own numbering; ours starts at 0


def make_envs(
    env: EnvConfig,
    num_envs: int,
    *,
    training: bool = True,
    autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    max_episode_steps: int | None = None,
    longest_episode: int | None = None,
) -> tuple[RowEnv, EnvSpaces]:
    """Makes `num_envs` copies of an environment.

    env: the section [env]. An id is as gymnasium.make takes it; of "module:id" the module, which
    registers it, is imported.
    training: false for an evaluation, which ignores the settings that only help learning.
    autoreset_mode: for what gymnasium vectorises; an environment's own vectorised form has the mode
    that it declares.
    max_episode_steps: the steps after which an environment is truncated.
    longest_episode: the same, for an environment that has no limit of its own. An own vectorised
    form cannot be given it; its RowEnv says so.
    Errors: UnknownEnvironment for an id that is not registered (with near matches) or spaces that
    are not supported, ConfigError for an environment that cannot be made, or whose observations no
    table can hold.
    """
    spec = find_spec(env.id)
    own = plugins.env_settings_type(env.id, EnvConfig)
    assert isinstance(env, own), f"{env.id} is played by {own.__name__}, as config.load makes it"
    wrapping = [plugins.find_object("env.wrappers", name) for name in env.wrappers]
    if wrapping and env.vectorization == "vector_entry_point":
        raise ConfigError(
            "env.wrappers wrap single environments, and vector_entry_point makes none",
            f"use ale_py:{env.id}, which gymnasium makes one by one"
            if isinstance(env, AtariSettings)
            else "use --set env.vectorization=sync, or a wrapper inside the environment's own form",
        )
    kwargs = dict(env.kwargs)
    if max_episode_steps is not None:
        kwargs["max_episode_steps"] = max_episode_steps
    if spec.max_episode_steps is not None or "max_episode_steps" in kwargs:
        longest_episode = None
    if longest_episode is not None and env.vectorization != "vector_entry_point":
        kwargs["max_episode_steps"], longest_episode = longest_episode, None
    try:
        if isinstance(env, AtariSettings):
            envs, longest_episode = make_atari(spec.kwargs["game"], env, num_envs, kwargs), None
        else:
            envs = _make_vec(spec, env.vectorization, num_envs, kwargs, wrapping, autoreset_mode)
    except ConfigError:
        raise
    except Exception as error:  # an environment is someone else's code
        raise ConfigError(
            f"environment {env.id} cannot be made: {one_line(error)}",
            "check the settings of [env] and that the environment's packages are installed",
        ) from error
    try:
        spaces = _spaces(env.id, envs.single_observation_space, envs.single_action_space)
        if isinstance(env, AtariSettings):
            return AtariRows(envs, training and env.life_loss == "discount"), spaces
        return RowEnv(envs, spaces.obs_dtype, spaces.first_action, longest_episode), spaces
    except ConfigError:
        envs.close()
        raise


def find_spaces(env: EnvConfig) -> EnvSpaces:
    """The spaces of an environment, found by making one copy of it. Errors as make_envs."""
    if env.vectorization == "async":
        env = replace(env, vectorization="sync")  # one copy needs no process of its own
    envs, spaces = make_envs(env, 1)
    envs.close()
    return spaces


def _make_vec(
    spec: gym.envs.registration.EnvSpec,
    vectorization: str,
    num_envs: int,
    kwargs: Mapping[str, Any],
    wrapping: Sequence[Callable[..., Any]],
    autoreset_mode: AutoresetMode,
) -> VectorEnv[Any, Any, Any]:
    vector_kwargs: dict[str, Any] = {}
    if vectorization != "vector_entry_point":
        vector_kwargs = {"autoreset_mode": autoreset_mode, "copy": False}  # RowEnv copies
    return gym.make_vec(
        spec,
        num_envs=num_envs,
        vectorization_mode=vectorization,
        vector_kwargs=vector_kwargs,
        wrappers=wrapping,
        **kwargs,
    )


def crashed(env_id: str, when: str, error: Exception) -> ConfigError:
    """The error of an environment that raised one: it is someone else's code."""
    return ConfigError(
        f"environment {env_id} crashed {when}: {one_line(error)}",
        "play it alone to find out why",
    )


def _spaces(
    env_id: str, observation: gym.Space[Any] | None, action: gym.Space[Any] | None
) -> EnvSpaces:
    if not isinstance(action, gym.spaces.Discrete):
        raise UnknownEnvironment(
            f"environment {env_id} has the action space {action}; Q-learning needs a Discrete one",
            "wrap the environment so that its actions are a finite set",
        )
    if not isinstance(observation, gym.spaces.Box):
        raise UnknownEnvironment(
            f"environment {env_id} has the observation space {observation}; a Box is needed",
            "wrap it with gymnasium.wrappers.FlattenObservation and register the wrapped one",
        )
    spaces = EnvSpaces(
        obs_shape=tuple(int(n) for n in observation.shape),
        obs_dtype=_column_dtype(observation.dtype),
        num_actions=int(action.n),
        first_action=int(action.start),
    )
    _require_storable(env_id, spaces)
    return spaces


def _require_storable(env_id: str, spaces: EnvSpaces) -> None:
    # Asked of the table's own check: it would refuse too, but only once there is a server.
    columns = {"obs": Column(spaces.obs_dtype, spaces.obs_shape)}
    item = Item({"obs": View("obs")})
    try:
        native_spec("replay", columns, item, 2, Sampler(), Limiter(), seed=0)
    except ConfigError as error:
        raise ConfigError(
            f"environment {env_id} has observations ({spaces.obs_dtype}{list(spaces.obs_shape)}) "
            f"that no table holds: {error.cause}",
            "wrap it so that one does (gymnasium.wrappers.ResizeObservation, FlattenObservation) "
            "and register the wrapped one",
        ) from error


def _column_dtype(dtype: npt.DTypeLike) -> str:
    # Bytes stay bytes (images), and a truth value is one; all else is what the networks compute in.
    return "uint8" if np.dtype(dtype) in (np.uint8, np.bool_) else "float32"


def one_line(error: BaseException) -> str:
    """An error of someone else's code: its kind and its text."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    return f"{kind}: {text}" if text else kind
