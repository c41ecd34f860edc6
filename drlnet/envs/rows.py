"""The one row form: whatever a vector environment's autoreset mode, a writer sees the same rows.

Row t of an environment holds o_t and the reward, terminated and truncated that arrived with it. Its
first row is FIRST, its final observation is a LAST row (which takes no action). How gymnasium's
modes get there:

    NEXT_STEP   step t returns the final observation, step t + 1 ignores its action and resets.
                One tick of rows for each step; the reset step is the LAST row's.
    SAME_STEP   step t resets at once and hides the final observation in its info.
                Two ticks: the LAST rows of the environments that ended, then everyone's next rows.
    DISABLED    step t returns the final observation and the caller resets. Two ticks, likewise.

So a step costs an env_step for each row that is not LAST, in every mode alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv

from drlnet.adders.observations import Arrays, flat, observation_columns
from drlnet.envs import breach, workers
from drlnet.envs.spaces import EnvSpaces
from drlnet.errors import ConfigError, UserCodeError

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Rows:
    """One row of each of M environments, as `Writer.append` takes them but for the action."""

    obs: npt.NDArray[Any]  # [M, *shape], as a network sees it
    reward: npt.NDArray[np.float32]  # [M], arrived with obs; 0 where first
    terminated: Bools  # [M], arrived with obs
    truncated: Bools  # [M], arrived with obs
    first: Bools  # [M]
    last: Bools  # [M]
    mask: Bools | None = None  # [M], the environments that have a row here; None: all
    leaves: Arrays | None = None  # of Dict and Discrete obs: [M, *shape] by column, as stored
    action_mask: Bools | None = None  # [M, num_actions], the valid actions; None: all


@dataclass(frozen=True)
class Streams:
    """The streams that an agent plays: one for each of its M environments."""

    ordinals: npt.NDArray[np.int64]  # [M], leased: the same when other actors join and leave
    first: int  # the place of the first one among all, for actors that are numbered
    total: int  # of all actors, as the settings plan them
    rng: np.random.Generator  # for exploration
    env_steps: int = 0  # of all actors when this one began to play

    @property
    def count(self) -> int:
        """M."""
        return len(self.ordinals)


class RowEnv:
    """A vector environment of any autoreset mode that yields `Rows`.

    Actions are numbered from 0, whatever the environment calls them. Not thread-safe.
    Where it says which ones are valid (info["action_mask"]), rows do: for a row without a mask, and
    for one that forbids all, every action is.
    longest_episode: the steps after which a player that wants an episode's end gives it up: these
    environments have no time limit, and none can be put on them. None: they have.
    """

    def __init__(
        self,
        envs: VectorEnv[Any, Any, Any],
        spaces: EnvSpaces,
        longest_episode: int | None = None,
    ):
        self.envs = envs
        self.longest_episode = longest_episode
        self.num_envs = envs.num_envs
        mode = envs.metadata.get("autoreset_mode")
        if not isinstance(mode, AutoresetMode):
            raise ConfigError(
                f"environment {envs} does not declare its autoreset mode",
                'set env.vectorization = "sync", or metadata["autoreset_mode"] in the environment',
            )
        self.mode = mode
        self._spaces = spaces
        columns = observation_columns(spaces)
        self._shapes = {name: (self.num_envs, *one.shape) for name, one in columns.items()}
        self._last = np.ones(self.num_envs, dtype=np.bool_)  # of the newest row of each environment

    def reset(self, seed: int | None = None) -> Rows:
        """Starts new episodes everywhere: FIRST rows. Equal seeds give equal episodes."""
        with workers.blamed(self.envs):
            obs, info = self.envs.reset(seed=seed)
        self._last = np.zeros(self.num_envs, dtype=np.bool_)
        return self._rows(self._own(obs), first=~self._last, action_mask=self._valid(info))

    def step(self, action: npt.NDArray[np.int64]) -> tuple[Rows | None, Rows]:
        """Steps all environments.

        action: [M] int64, ignored where the newest row is LAST. Returns (final, rows): `rows` are
        the ones to act on next; `final` are LAST rows that lie before them, None when there are
        none or when they are among `rows` (NEXT_STEP). Raises UserCodeError for other actions.
        """
        reset_now = self._last
        own = self._spaces.own_actions(self._known(action))
        with workers.blamed(self.envs, own):
            step = self.envs.step(own)
        obs, reward, terminated, truncated, info = step
        last, valid = np.logical_or(terminated, truncated), self._valid(info)
        obs = self._own(obs)
        if self.mode is AutoresetMode.NEXT_STEP:
            self._last = last
            return None, self._rows(obs, reward, terminated, truncated, reset_now, last, valid)
        if not last.any():
            return None, self._rows(obs, reward, terminated, truncated, action_mask=valid)
        if self.mode is AutoresetMode.SAME_STEP:
            final_obs, final_valid = self._final_obs(obs, info, last), self._final_valid(info)
        else:
            final_obs, final_valid = obs, valid
            # An own vectorised form may return its buffers, and clear them as it resets.
            reward, terminated, truncated = map(np.array, (reward, terminated, truncated))
            with workers.blamed(self.envs):
                obs, info = self.envs.reset(options={"reset_mask": last.copy()})
            obs, began = self._own(obs), self._valid(info)
            if valid is not None and began is not None:
                valid = np.where(last[:, None], began, valid)
        none = np.zeros_like(last)
        final = self._rows(final_obs, reward, terminated, truncated, none, last, final_valid)
        # Nothing but the others' rewards arrives with these: none of them has ended.
        following = self._rows(obs, np.where(last, 0, reward), first=last, action_mask=valid)
        return replace(final, mask=last), following

    def close(self) -> None:
        """Closes the environments."""
        workers.close(self.envs)

    def _known(self, action: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The actions, and 0 where a LAST row has another one than these environments know."""
        if not isinstance(action, np.ndarray):
            raise self._wrong(f"a {type(action).__name__} as actions")
        if action.dtype.kind not in "iu" or action.shape != (self.num_envs,):
            raise self._wrong(f"{action.dtype}{list(action.shape)} as actions")
        unknown = action.astype(np.uint64) >= self._spaces.num_actions  # negative ones are large
        if not unknown.any():
            return action
        for wrong in action[unknown & ~self._last]:
            raise self._wrong(f"the action {wrong}")
        return np.where(self._last, 0, action)

    def _wrong(self, found: str) -> UserCodeError:
        due = f"{self.num_envs} integers, 0 to {self._spaces.num_actions - 1}"
        return UserCodeError(f"act() returned {found}", f"return {due}: one for each environment")

    def _own(self, obs: Any) -> Any:
        """A copy of obs as its columns hold it: an array, or one for each leaf of a Dict."""
        return self._spaces.own_obs(obs)

    def _final_obs(self, obs: Any, info: Mapping[str, Any], last: Bools) -> Any:
        """obs as its columns hold it, with the final observations of those that ended."""
        if not self._spaces.leaves:
            final = obs.copy()
            for index in np.flatnonzero(last):
                final[index] = self._own(info["final_obs"][index])
            return final
        columns = {name: column.copy() for name, column in obs.items()}
        for index in np.flatnonzero(last):
            for name, value in self._own(info["final_obs"][index]).items():
                columns[name][index] = value
        return columns

    def _final_valid(self, info: Mapping[str, Any]) -> Bools | None:
        final = info.get("final_info", {})
        return self._valid(final if isinstance(final, Mapping) else {})

    def _valid(self, info: Mapping[str, Any]) -> Bools | None:
        """The valid actions [M, num_actions], None where the environment never says."""
        if not self._spaces.action_mask:
            return None
        valid = np.ones((self.num_envs, self._spaces.num_actions), dtype=np.bool_)
        if "action_mask" in info:
            said = np.broadcast_to(info.get("_action_mask", True), self.num_envs)
            for index in np.flatnonzero(said):
                valid[index] = info["action_mask"][index]
        valid[~valid.any(axis=1)] = True
        return valid

    def _rows(
        self,
        obs: Any,  # as _own() returns it
        reward: npt.ArrayLike | None = None,
        terminated: Bools | None = None,
        truncated: Bools | None = None,
        first: Bools | None = None,
        last: Bools | None = None,
        action_mask: Bools | None = None,
    ) -> Rows:
        none = np.zeros(self.num_envs, dtype=np.bool_)
        leaves = self._spaces.leaves
        arrived = none.astype(np.float32) if reward is None else np.array(reward, dtype=np.float32)
        for name, shape in self._shapes.items():  # of an own vectorised form
            self._require_shape(f"observations ({name})", obs[name] if leaves else obs, shape)
        self._require_shape("rewards", arrived, none.shape)
        return Rows(
            obs=flat(leaves, obs) if leaves else obs,
            reward=arrived,
            terminated=none if terminated is None else np.array(terminated, dtype=np.bool_),
            truncated=none if truncated is None else np.array(truncated, dtype=np.bool_),
            first=none if first is None else first,
            last=none if last is None else last,
            leaves=obs if leaves else None,
            action_mask=action_mask,
        )

    def _require_shape(self, what: str, array: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
        if array.shape != shape:
            cause = f"its {what} have the shape {list(array.shape)}, where {list(shape)} is due"
            raise workers.EnvCrash(workers.EnvCrash(cause, breach.REMEDY, ""))


def ticks(step: tuple[Rows | None, Rows]) -> Iterable[Rows]:
    """The rows of a step in the order in which a writer appends them."""
    final, rows = step
    return (rows,) if final is None else (final, rows)
