"""Pictures of one episode in the environment's own colours, whatever its observations are.

What gymnasium steps is asked to draw itself. ale-py's vector environment draws nothing, but a game
follows from its seed and actions: a second console plays the same ones and is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium.error import DependencyNotInstalled

from drlnet.config import EnvConfig
from drlnet.envs.atari import AtariRows, AtariScreen
from drlnet.envs.make import failed, make_envs
from drlnet.envs.rows import RowEnv, Rows
from drlnet.envs.settings import AtariSettings
from drlnet.errors import ConfigError

Picture: TypeAlias = npt.NDArray[np.uint8]  # [height, width, 3]
Act: TypeAlias = Callable[[Rows], npt.NDArray[np.int64]]  # rows of one environment -> [1]

_STEPS_PER_S = 15.0  # of an environment that does not say how fast it is played
_ATARI_FRAMES_PER_S = 60.0


@dataclass(frozen=True)
class Film:
    """One episode: a picture of each of its rows, made as it is asked for."""

    pictures: Iterator[Picture]
    per_s: float


def film(env: EnvConfig, act: Act, seed: int, max_episode_steps: int | None = None) -> Film:
    """An episode of one environment, reset with seed, as an evaluation plays it.

    Errors: as make_envs; ConfigError for an environment that draws no pictures.
    """
    if not isinstance(env, AtariSettings):
        # MinAtar's colours are floats, which is nothing that gymnasium need warn of.
        kwargs = {**env.kwargs, "render_mode": "rgb_array", "disable_env_checker": True}
        env = replace(env, vectorization="sync", kwargs=kwargs)
    envs, _ = make_envs(env, 1, training=False, max_episode_steps=max_episode_steps)
    if isinstance(env, AtariSettings) and isinstance(envs, AtariRows):
        screen = AtariScreen(env, seed)
        return Film(_replayed(envs, screen, act, seed), _ATARI_FRAMES_PER_S / env.frame_skip)
    per_s = envs.envs.metadata.get("render_fps") or _STEPS_PER_S
    return Film(_drawn(envs, env.id, act, seed), float(per_s))


def _drawn(envs: RowEnv, env_id: str, act: Act, seed: int) -> Iterator[Picture]:
    with closing(envs):
        rows = envs.reset(seed)
        yield _picture(envs, env_id)
        while not rows.last[0]:
            _, rows = envs.step(act(rows))
            yield _picture(envs, env_id)


def _picture(envs: RowEnv, env_id: str) -> Picture:
    try:
        drawings = envs.envs.render()
    except Exception as error:  # an environment is someone else's code
        raise failed(
            f"environment {env_id} draws no pictures",
            error,
            "pip install 'drlnet[video]'"
            if isinstance(error, DependencyNotInstalled)
            else "repair its render()",
        ) from error
    drawn: npt.NDArray[Any] = np.asarray(drawings[0] if drawings else None)
    if drawn.ndim != 3 or drawn.shape[2] != 3:
        found = f"the shape {list(drawn.shape)}" if drawn.ndim else "none"
        raise ConfigError(
            f"environment {env_id} draws no pictures: its render() returns {found}",
            'let it return [height, width, 3] where render_mode = "rgb_array"',
        )
    if drawn.dtype.kind not in "iu":
        drawn = np.rint(255 * drawn)
    return drawn.clip(0, 255).astype(np.uint8)


def _replayed(envs: AtariRows, screen: AtariScreen, act: Act, seed: int) -> Iterator[Picture]:
    with closing(envs):
        rows = envs.reset(seed)
        screen.begin(int(envs.frames[0]))
        yield screen.picture()
        while not rows.last[0]:
            action = act(rows)
            _, rows = envs.step(action)
            screen.follow(int(action[0]), int(envs.frames[0]))
            yield screen.picture()
