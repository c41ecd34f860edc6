"""Makes a `RowEnv` of a gymnasium environment by its id; refuses what no agent here can play."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv

from drlnet.config import EnvConfig, plugins
from drlnet.envs.atari import AtariRows, make_atari
from drlnet.envs.registry import find_spec
from drlnet.envs.rows import RowEnv
from drlnet.envs.settings import AtariSettings
from drlnet.envs.spaces import EnvSpaces, spaces_of
from drlnet.envs.workers import EnvCrash, Telling, blamed, close, raised, work
from drlnet.errors import ConfigError, UserCodeError, one_line, user_place

# What an environment has that draws itself.
_DRAWING = (
    'give it __init__(self, render_mode=None), metadata = {"render_modes": ["rgb_array"]} '
    "and a render() that returns a picture [height, width, 3]"
)


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
    The environments are reset once, to see whether they say which actions are valid.
    autoreset_mode: for what gymnasium vectorises; an environment's own vectorised form has the mode
    that it declares.
    max_episode_steps: the steps after which an environment is truncated; longest_episode for an own
    vectorised form that takes no limit.
    longest_episode: the same, for an environment that has no limit of its own. An own vectorised
    form cannot be given it; its RowEnv says so.
    Errors: UnknownEnvironment for an id that is not registered (with near matches) or spaces that
    are not supported, ConfigError for an environment that cannot be made, or whose observations no
    table can hold, UserCodeError for one that raises an error.
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
    try:
        if max_episode_steps is not None:
            if isinstance(env, AtariSettings) or _takes_limit(spec, env.vectorization):
                kwargs["max_episode_steps"] = max_episode_steps
            else:
                longest_episode = max_episode_steps
        if spec.max_episode_steps is not None or "max_episode_steps" in kwargs:
            longest_episode = None
        if longest_episode is not None and env.vectorization != "vector_entry_point":
            kwargs["max_episode_steps"], longest_episode = longest_episode, None
        if isinstance(env, AtariSettings):
            envs, longest_episode = make_atari(spec.kwargs["game"], env, num_envs, kwargs), None
        else:
            envs = _make_vec(spec, env.vectorization, num_envs, kwargs, wrapping, autoreset_mode)
    except ConfigError:
        raise
    except Exception as error:  # an environment is someone else's code
        raise failed(
            f"environment {env.id} cannot be made",
            error,
            _DRAWING
            if "render_mode" in kwargs and isinstance(error, TypeError)
            else "check the settings of [env] and that the environment's packages are installed",
        ) from error
    try:
        spaces = spaces_of(env.id, envs.single_observation_space, envs.single_action_space)
        if isinstance(env, AtariSettings):
            return AtariRows(envs, spaces, training and env.life_loss == "discount"), spaces
        spaces = replace(spaces, action_mask=_offers_masks(env.id, envs, spaces.num_actions))
        return RowEnv(envs, spaces, longest_episode), spaces
    except ConfigError:
        close(envs)
        raise


def find_spaces(env: EnvConfig) -> EnvSpaces:
    """The spaces of an environment, found by making one copy of it. Errors as make_envs."""
    if env.vectorization == "async":
        env = replace(env, vectorization="sync")  # one copy needs no process of its own
    envs, spaces = make_envs(env, 1)
    envs.close()
    return spaces


def _takes_limit(spec: gym.envs.registration.EnvSpec, vectorization: str) -> bool:
    """Whether environments made in that way can be given max_episode_steps."""
    form = spec.vector_entry_point
    if vectorization != "vector_entry_point" or form is None:
        return True
    creator: Callable[..., Any] = load_env_creator(form) if isinstance(form, str) else form
    taken = inspect.signature(creator).parameters.values()
    return any(one.name == "max_episode_steps" or one.kind is one.VAR_KEYWORD for one in taken)


def _make_vec(
    spec: gym.envs.registration.EnvSpec,
    vectorization: str,
    num_envs: int,
    kwargs: Mapping[str, Any],
    wrapping: Sequence[Callable[..., Any]],
    autoreset_mode: AutoresetMode,
) -> VectorEnv[Any, Any, Any]:
    vector_kwargs: dict[str, Any] = {}
    if vectorization == "async":
        wrapping = [*wrapping, Telling]
        vector_kwargs["worker"] = work
    if vectorization != "vector_entry_point":
        vector_kwargs |= {"autoreset_mode": autoreset_mode, "copy": False}  # RowEnv copies
    return gym.make_vec(
        spec,
        num_envs=num_envs,
        vectorization_mode=vectorization,
        vector_kwargs=vector_kwargs,
        wrappers=wrapping,
        **kwargs,
    )


def _offers_masks(env_id: str, envs: VectorEnv[Any, Any, Any], num_actions: int) -> bool:
    """Whether info["action_mask"] comes with a reset: this one is for that alone."""
    try:
        with blamed(envs):
            _, info = envs.reset()
    except Exception as error:  # an environment is someone else's code
        raise crashed(env_id, "in its first reset", error) from error
    if "action_mask" not in info:
        return False
    shape = np.shape(info["action_mask"][0])
    if shape != (num_actions,):
        raise ConfigError(
            f'environment {env_id}: info["action_mask"] has the shape {list(shape)}',
            f"give one truth value for each of its {num_actions} actions",
        )
    return True


def crashed(env_id: str, when: str, error: Exception) -> UserCodeError:
    """The error of an environment that raised one: it is someone else's code."""
    what = f"environment {env_id} crashed {when}: "
    if error.args and isinstance(error.args[0], EnvCrash):
        return error.args[0].retold(what)
    return raised(what, error)


def close_crashed(env_id: str, envs: RowEnv) -> None:
    """Closes environments after an error of theirs. Another one is printed: the first counts."""
    try:
        envs.close()
    except Exception as error:  # an environment is someone else's code
        failure = crashed(env_id, "as it was closed", error)
        print(f"{failure.trace}{failure.cause}", file=sys.stderr, flush=True)


def failed(what: str, error: Exception, remedy: str) -> ConfigError:
    """The error of an environment: with a remedy unless it comes from a user's own code."""
    if error.args and isinstance(error.args[0], EnvCrash):
        return error.args[0].retold(f"{what}: ")
    if user_place(error):
        return UserCodeError.of(f"{what}: ", error)
    return ConfigError(f"{what}: {one_line(error)}", remedy)
