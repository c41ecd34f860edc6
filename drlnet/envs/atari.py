"""Atari 2600 games by ale-py's vector environment: ids that begin with ALE/.

It emulates, pools, shrinks and resets in native code. Its settings here, and why:

    stack_num 1             frames are stored once; the item's views stack them
    reward_clipping off     returns are the game's score; an algorithm clips if it likes
    episodic_life off       it would start a new game at every lost life
    life_loss_info off      it would call a lost life the end of an episode that goes on

So `terminated` is the game's end, of games without lives (Pong) as of others, and a lost life is
seen in the count of lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv

from drlnet.envs.registry import find_spec
from drlnet.envs.rows import RowEnv, Rows
from drlnet.envs.settings import AtariSettings
from drlnet.envs.spaces import EnvSpaces
from drlnet.errors import ConfigError

_SEEDS = 2**31  # the emulator's are of 31 bits; a negative one means "any"


class AtariRows(RowEnv):
    """Rows of M games: obs is one frame, uint8[M, size, size] or [M, size, size, 3].

    discount_lives: a row that arrives with a lost life is `terminated` and not `last`: nothing is
    bootstrapped over it, and the episode goes on.
    frames: [M] int32, those of each game since its reset, the no-ops included.
    """

    def __init__(self, envs: VectorEnv[Any, Any, Any], spaces: EnvSpaces, discount_lives: bool):
        super().__init__(envs, spaces)
        self._discount_lives = discount_lives
        self._lives = self.frames = np.zeros(self.num_envs, dtype=np.int32)

    def reset(self, seed: int | None = None) -> Rows:
        """Starts new episodes everywhere: FIRST rows. Equal seeds give equal episodes."""
        seeds = None if seed is None else (seed + np.arange(self.num_envs)) % _SEEDS
        obs, info = self.envs.reset(seed=seeds)  # type: ignore[arg-type]
        self._last = np.zeros(self.num_envs, dtype=np.bool_)
        self._lives, self.frames = info["lives"], info["episode_frame_number"]
        return self._rows(self._own(obs), first=~self._last)

    def step(self, action: npt.NDArray[np.int64]) -> tuple[None, Rows]:
        """Steps all environments; action: [M] int64, ignored where the newest row is LAST."""
        first = self._last
        obs, reward, game_over, truncated, info = self.envs.step(self._known(action))
        self._last = game_over | truncated
        lost = info["lives"] < self._lives
        self._lives, self.frames = info["lives"], info["episode_frame_number"]
        terminated = game_over | (lost & ~first) if self._discount_lives else game_over
        return None, self._rows(self._own(obs), reward, terminated, truncated, first, self._last)

    def _own(self, obs: npt.ArrayLike) -> npt.NDArray[Any]:
        # Made anew for each step, so it is ours; the axis of one stacked frame goes.
        return np.asarray(obs)[:, 0]


def make_atari(
    game: str, env: AtariSettings, num_envs: int, kwargs: Mapping[str, Any]
) -> VectorEnv[Any, Any, Any]:
    """`num_envs` copies of a game, as AtariRows takes them.

    game: as ale-py names its ROM; kwargs: max_episode_steps, which lowers the limit that
    env.max_frames sets, and others of AtariVectorEnv that no setting decides.
    """
    from ale_py.vector_env import AtariVectorEnv

    _rom(env, game)
    others = dict(kwargs)
    steps = others.pop("max_episode_steps", env.max_frames)
    envs = AtariVectorEnv(
        game,
        num_envs,
        num_threads=env.num_threads,
        max_num_frames_per_episode=min(env.max_frames, steps * env.frame_skip),
        repeat_action_probability=env.sticky_actions,
        full_action_space=env.full_action_space,
        autoreset_mode=AutoresetMode.NEXT_STEP,
        img_height=env.screen_size,
        img_width=env.screen_size,
        grayscale=env.grayscale,
        stack_num=1,
        frameskip=env.frame_skip,
        maxpool=env.max_pool,
        noop_max=env.noop_max,
        episodic_life=False,
        life_loss_info=False,
        reward_clipping=False,
        use_fire_reset=env.fire_reset,
        **others,
    )
    size = (env.screen_size, env.screen_size)  # of a row: without the axis of the stack
    envs.single_observation_space = Box(0, 255, size if env.grayscale else (*size, 3), np.uint8)
    return envs


class AtariScreen:
    """One game once more, from the same seed and actions, for its picture in colour."""

    def __init__(self, env: AtariSettings, seed: int):
        import ale_py

        self._env, self._actions = env, ale_py.Action
        self._ale = ale_py.ALEInterface()
        self._ale.setFloat("repeat_action_probability", env.sticky_actions)
        self._ale.setInt("random_seed", seed % _SEEDS)
        self._ale.loadROM(_rom(env, find_spec(env.id).kwargs["game"]))
        self._set = (
            self._ale.getLegalActionSet()
            if env.full_action_space
            else self._ale.getMinimalActionSet()
        )

    def begin(self, frames: int) -> None:
        """Follows a reset that took that many frames."""
        self._ale.reset_game()
        if self._env.fire_reset and self._actions.FIRE in self._set:
            self._ale.act(self._actions.FIRE)
        self._hold(self._actions.NOOP, frames)

    def follow(self, action: int, frames: int) -> None:
        """Follows a step that ended at this frame of the episode."""
        self._hold(self._set[action], frames)

    def picture(self) -> npt.NDArray[np.uint8]:
        """[210, 160, 3], of the newest frame alone."""
        screen: npt.NDArray[np.uint8] = self._ale.getScreenRGB()
        return screen

    def _hold(self, action: Any, frames: int) -> None:
        while self._ale.getEpisodeFrameNumber() < frames:
            self._ale.act(action)


def _rom(env: AtariSettings, game: str) -> Path:
    from ale_py import roms

    try:
        path: Path | None = roms.get_rom_path(game)
    except OSError as error:
        raise ConfigError(
            f"environment {env.id} has no ROM: {error}",
            "ale-py brings its ROMs: unset ALE_ROMS_DIR, or pip install --force-reinstall ale-py",
        ) from error
    assert path is not None, "gymnasium's registry names games that ale-py knows"
    return path
