"""Makes a `RowEnv` of a gymnasium environment by its id; refuses what no agent here can play."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode

from drlnet.client.specs import Column, Item, Limiter, Sampler, View, native_spec
from drlnet.config import EnvConfig, plugins
from drlnet.envs.rows import RowEnv
from drlnet.errors import ConfigError, UnknownEnvironment


@dataclass(frozen=True)
class EnvSpaces:
    """What a policy and a table have to know about an environment."""

    obs_shape: tuple[int, ...]
    obs_dtype: str  # numpy's name: "float32" or "uint8"
    num_actions: int
    first_action: int  # of the environment's own numbering; ours starts at 0


def make_envs(
    env_id: str,
    num_envs: int,
    *,
    kwargs: Mapping[str, Any] | None = None,
    vectorization: str = "sync",
    wrappers: Sequence[str] = (),
    autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    longest_episode: int | None = None,
) -> tuple[RowEnv, EnvSpaces]:
    """Makes `num_envs` copies of an environment.

    env_id: as gymnasium.make takes it; of "module:id" the module, which registers it, is imported.
    vectorization: "sync" steps them in a loop, "async" in a process each, "vector_entry_point"
    takes the environment's own vectorised form (CartPole's steps 16 environments 3 times faster).
    wrappers: gymnasium wrappers by module:Name, innermost first; for the first two.
    autoreset_mode: for the first two; an own form has the mode that it declares.
    longest_episode: the steps after which an environment is truncated that has no limit of its own;
    an own form cannot be made to, and its RowEnv says so.
    Errors: UnknownEnvironment for an id that is not registered (with near matches) or spaces that
    are not supported, ConfigError for an environment that cannot be made, or whose observations no
    table can hold.
    """
    spec = _find(env_id)
    vector_kwargs: dict[str, Any] = {}
    kwargs = dict(kwargs or {})
    wrapping = [plugins.find_object("env.wrappers", name) for name in wrappers]
    if wrapping and vectorization == "vector_entry_point":
        raise ConfigError(
            "env.wrappers wrap single environments, and vector_entry_point makes none",
            "use --set env.vectorization=sync, or a wrapper inside the environment's own form",
        )
    if spec.max_episode_steps is not None or "max_episode_steps" in kwargs:
        longest_episode = None
    if vectorization != "vector_entry_point":
        vector_kwargs["autoreset_mode"] = autoreset_mode
        if longest_episode is not None:
            kwargs["max_episode_steps"], longest_episode = longest_episode, None
    try:
        envs = gym.make_vec(
            env_id,
            num_envs=num_envs,
            vectorization_mode=vectorization,
            vector_kwargs=vector_kwargs,
            wrappers=wrapping,
            **kwargs,
        )
    except Exception as error:  # an environment is someone else's code
        raise ConfigError(
            f"environment {env_id} cannot be made: {_one_line(error)}",
            "check env.kwargs, env.vectorization and that the environment's packages are installed",
        ) from error
    try:
        spaces = _spaces(env_id, envs.single_observation_space, envs.single_action_space)
        return RowEnv(envs, spaces.obs_dtype, spaces.first_action, longest_episode), spaces
    except ConfigError:
        envs.close()
        raise


def find_spaces(env: EnvConfig) -> EnvSpaces:
    """The spaces of an environment, found by making one copy of it. Errors as make_envs."""
    own = env.vectorization == "vector_entry_point"  # one copy needs no process of its own
    envs, spaces = make_envs(
        env.id,
        1,
        kwargs=env.kwargs,
        vectorization=env.vectorization if own else "sync",
        wrappers=env.wrappers,
    )
    envs.close()
    return spaces


def crashed(env_id: str, when: str, error: Exception) -> ConfigError:
    """The error of an environment that raised one: it is someone else's code."""
    return ConfigError(
        f"environment {env_id} crashed {when}: {_one_line(error)}",
        "play it alone to find out why",
    )


def _find(env_id: str) -> gym.envs.registration.EnvSpec:
    # gymnasium's own form "module:id" names the module whose import registers the id.
    module, _, name = env_id.rpartition(":")
    if module:
        plugins.import_module(f"environment {env_id}", module, UnknownEnvironment)
    try:
        return gym.spec(name)
    except (gym.error.Error, ImportError) as error:
        near = difflib.get_close_matches(name, list(gym.registry), n=3, cutoff=0.5)
        if not near:  # another capitalisation is nearer than its letters say
            lower = {known.lower(): known for known in gym.registry}
            near = [lower[n] for n in difflib.get_close_matches(name.lower(), lower, 3, 0.5)]
        remedy = "python -c 'import gymnasium; gymnasium.pprint_registry()' lists all"
        if near:
            prefix = f"{module}:" if module else ""
            remedy = f"did you mean {' or '.join(prefix + n for n in near)}? {remedy}"
        raise UnknownEnvironment(
            f"no environment {env_id!r} is registered with gymnasium", remedy
        ) from error


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
    # Bytes stay bytes (images); all else is what the networks compute in.
    return "uint8" if np.dtype(dtype) == np.uint8 else "float32"


def _one_line(error: BaseException) -> str:
    kind, text = type(error).__name__, " ".join(str(error).split())
    return f"{kind}: {text}" if text else kind
