"""What a policy and a table have to know of an environment's spaces, and which are supported."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from drlnet.adders.observations import Leaf, flat_size
from drlnet.client.specs import Column, Item, Limiter, Sampler, View, native_spec
from drlnet.errors import ConfigError, UnknownEnvironment

MOST_ACTIONS = 1024
"""Combinations of a MultiDiscrete space at most: each has a Q value of its own."""


@dataclass(frozen=True)
class EnvSpaces:
    """What a policy and a table have to know about an environment.

    obs_shape, obs_dtype: what a network sees; of Dict observations their leaves, flattened, of
    Discrete ones a one-hot vector.
    """

    obs_shape: tuple[int, ...]
    obs_dtype: str  # numpy's name: "float32" or "uint8"
    num_actions: int
    first_action: int  # of the environment's own numbering; ours starts at 0
    # Of Dict observations, by column; a Discrete one is a leaf itself, in the column "obs".
    leaves: Mapping[str, Leaf] = field(default_factory=dict)
    # The environment's own actions [num_actions, *shape], where they are combinations.
    actions: npt.NDArray[np.int64] | None = field(default=None, compare=False)
    action_mask: bool = False  # info["action_mask"] says which actions are valid

    @property
    def num_states(self) -> int | None:
        """The states, where an observation is one Discrete: the column "obs" holds their number."""
        return self.leaves["obs"].count if "obs" in self.leaves else None

    def own_actions(self, action: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Actions [M], numbered from 0, as the environment takes them: [M, *shape]."""
        if self.actions is not None:
            return self.actions[action]
        return action + self.first_action if self.first_action else action

    def own_obs(self, obs: Any) -> Any:
        """A copy of observations as their columns hold them: an array, or one for each column.

        obs: of one environment or of M, as gymnasium batches them. An environment may write to
        its observations again.
        """
        if not self.leaves:
            return stored(obs, self.obs_dtype)
        columns = {}
        for name, leaf in self.leaves.items():
            part = obs
            for key in leaf.path:
                part = part[key]
            if leaf.count is not None:
                own = np.asarray(part) - leaf.first
                if not ((own >= 0) & (own < leaf.count)).all():
                    raise ValueError(f"{part} is not in Discrete({leaf.count}, start={leaf.first})")
                part = own
            elif leaf.binary:
                part = np.asarray(part, dtype=np.bool_)
            columns[name] = stored(part, leaf.dtype)
        return columns


def stored(obs: npt.ArrayLike, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A copy of obs in the column's dtype."""
    own = np.array(obs, dtype=dtype)
    if np.asarray(obs).dtype == np.bool_:
        own *= 255  # true: every network divides uint8 by 255
    return own


def spaces_of(
    env_id: str, observation: gym.Space[Any] | None, action: gym.Space[Any] | None
) -> EnvSpaces:
    """Derives what policy and table need from these spaces.

    Errors: UnknownEnvironment for spaces that are not supported, ConfigError for observations that
    no table holds.
    """
    num_actions, first_action, actions = _actions(env_id, action)
    leaves: dict[str, Leaf] = {}
    shape: tuple[int, ...]
    if isinstance(observation, gym.spaces.Dict | gym.spaces.Discrete):
        for leaf in _leaves(env_id, observation, ()):
            name = ".".join(["obs", *map(str, leaf.path)])
            if name in leaves:
                raise UnknownEnvironment(
                    f"environment {env_id} has two observations of the name "
                    f"{name.removeprefix('obs.')!r}: {leaves[name].path} and {leaf.path}",
                    "wrap it with a gymnasium.ObservationWrapper that renames a key",
                )
            leaves[name] = leaf
        shape, dtype = (flat_size(leaves),), "float32"
    elif isinstance(observation, gym.spaces.Box):
        shape = tuple(int(n) for n in observation.shape)
        dtype = _column_dtype(observation.dtype)
    else:
        raise UnknownEnvironment(
            f"environment {env_id} has the observation space {observation}; a Box, a Discrete "
            "or a Dict is needed",
            "wrap it with gymnasium.wrappers.FlattenObservation and register the wrapped one",
        )
    spaces = EnvSpaces(shape, dtype, num_actions, first_action, leaves, actions)
    _require_storable(env_id, spaces)
    return spaces


def _actions(
    env_id: str, action: gym.Space[Any] | None
) -> tuple[int, int, npt.NDArray[np.int64] | None]:
    """num_actions, first_action and actions."""
    if isinstance(action, gym.spaces.Discrete):
        return int(action.n), int(action.start), None
    if not isinstance(action, gym.spaces.MultiDiscrete):
        raise UnknownEnvironment(
            f"environment {env_id} has the action space {action}; Q-learning needs a Discrete or "
            "MultiDiscrete one",
            "wrap the environment so that its actions are a finite set",
        )
    sizes = [int(n) for n in action.nvec.reshape(-1)]
    count = math.prod(sizes)
    if count > MOST_ACTIONS:
        raise UnknownEnvironment(
            f"environment {env_id} has {count:,} combinations of actions (MultiDiscrete {sizes}); "
            f"drlnet numbers {MOST_ACTIONS:,} at most",
            "wrap the environment so that it has fewer (a gymnasium.ActionWrapper)",
        )
    each = np.stack(np.unravel_index(np.arange(count), sizes), axis=-1)
    own = each.reshape(count, *action.nvec.shape) + np.asarray(action.start)
    return count, 0, own.astype(np.int64)


def _leaves(env_id: str, space: gym.Space[Any], path: tuple[str | int, ...]) -> Iterator[Leaf]:
    if isinstance(space, gym.spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _leaves(env_id, inner, (*path, key))
    elif isinstance(space, gym.spaces.Box):
        yield Leaf(path, _column_dtype(space.dtype), tuple(int(n) for n in space.shape))
    elif isinstance(space, gym.spaces.MultiBinary):
        yield Leaf(path, "uint8", tuple(int(n) for n in space.shape), binary=True)
    elif isinstance(space, gym.spaces.Discrete):
        yield Leaf(path, "int32", (), count=int(space.n), first=int(space.start))
    else:
        raise UnknownEnvironment(
            f"environment {env_id} has the space {space} at {'.'.join(map(str, path))} of its "
            "observations; Box, Discrete, MultiBinary and Dict can be stored",
            "wrap it with gymnasium.wrappers.FilterObservation, or FlattenObservation",
        )


def _require_storable(env_id: str, spaces: EnvSpaces) -> None:
    # Asked of the table's own check: it would refuse too, but only once there is a server.
    one = {"obs": Column(spaces.obs_dtype, spaces.obs_shape)}
    columns = {name: leaf.column for name, leaf in spaces.leaves.items()} or one
    item = Item({name: View(name) for name in columns})
    try:
        native_spec("replay", columns, item, 2, Sampler(), Limiter(), seed=0)
    except ConfigError as error:
        shapes = ", ".join(
            f"{one.dtype}{list(one.shape)}, {one.row_bytes:,} bytes" for one in columns.values()
        )
        raise ConfigError(
            f"environment {env_id} has observations ({shapes}) that no table holds: {error.cause}",
            _smaller(env_id),
        ) from error


def _smaller(env_id: str) -> str:
    """The remedy for observations that no table holds."""
    if env_id.startswith("ALE/"):
        return "use --set env.grayscale=true, or a lower env.screen_size"
    _, of_atari, game = env_id.partition("ALE/")
    if of_atari:
        return (
            f"use ALE/{game}: its frames are grey, of env.screen_size pixels, stored one by one "
            "(net.frame_stack stacks them)"
        )
    return (
        "show less by env.wrappers: gymnasium.wrappers:GrayscaleObservation or FlattenObservation, "
        "ResizeObservation in a class of yours; net.frame_stack stacks single frames"
    )


def _column_dtype(dtype: npt.DTypeLike) -> str:
    # Bytes stay bytes (images), and a truth value is one; all else is what the networks compute in.
    return "uint8" if np.dtype(dtype) in (np.uint8, np.bool_) else "float32"
