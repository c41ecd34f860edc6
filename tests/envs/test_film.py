"""Films show the very episode that an evaluation plays, one picture for each of its rows."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from installed import require
from toy import TOY, Toy

from drlnet.config import EnvConfig, load
from drlnet.envs import Rows, film, make_envs
from drlnet.errors import ConfigError


class Watcher:
    """Acts at random, and keeps what it has seen."""

    def __init__(self, num_actions: int):
        self._rng, self._num_actions = np.random.default_rng(1), num_actions
        self.seen: list[np.ndarray] = []
        self.actions: list[int] = []

    def act(self, rows: Rows) -> np.ndarray:
        self.seen.append(rows.obs[0])
        self.actions.append(int(self._rng.integers(self._num_actions)))
        return np.array(self.actions[-1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "sets"),
    [
        ("Breakout", ["env.fire_reset=true"]),
        ("Pong", ["env.frame_skip=3"]),
        ("Freeway", ["env.full_action_space=true", "env.sticky_actions=0.5"]),
    ],
)
def test_a_game_of_atari_is_the_one_that_is_played(game: str, sets: list[str]) -> None:
    require("ale_py", "cv2")
    import cv2

    sets += ["env.screen_size=84", "env.grayscale=false", "env.max_pool=false"]
    sets += ["env.life_loss=discount"]
    env, watcher = load(f"ALE/{game}-v5", sets=sets).env, Watcher(3)
    filmed = film(env, watcher.act, 2**31 + 5, max_episode_steps=90)
    pictures = list(filmed.pictures)
    assert len(pictures) == len(watcher.seen) + 1 == 91  # the final one is not acted on
    for picture, obs in zip(pictures, watcher.seen, strict=False):
        assert picture.shape == (210, 160, 3)
        shrunk = cv2.resize(picture, (84, 84), interpolation=cv2.INTER_AREA)
        np.testing.assert_array_equal(shrunk, obs)
    assert filmed.per_s == (20 if game == "Pong" else 15)


def test_minatar_is_drawn_in_its_colours() -> None:
    require("minatar")
    env, watcher = EnvConfig(id="MinAtar/Breakout-v1"), Watcher(3)
    filmed = film(env, watcher.act, 7)
    pictures = list(filmed.pictures)
    envs, _ = make_envs(env, 1)
    np.testing.assert_array_equal(envs.reset(7).obs[0], watcher.seen[0])
    for picture, obs in zip(pictures, watcher.seen, strict=False):
        assert (picture.dtype, picture.shape) == (np.uint8, (10, 10, 3))
        np.testing.assert_array_equal(
            picture.any(axis=2), obs.any(axis=2)
        )  # black where nothing is


class Drawn(Toy):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 7}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, picture: Any = None):
        super().__init__(6)
        self.render_mode, self._picture = render_mode, picture

    def render(self) -> Any:
        if isinstance(self._picture, np.ndarray):
            return self._picture
        if self._picture == "broken":
            raise RuntimeError("no pencil\nhere")
        return None if self._picture == "none" else np.full((4, 5, 3), self._step, np.uint8)


def test_one_picture_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(TOY), "entry_point", Drawn)
    env, watcher = EnvConfig(id=TOY, vectorization="async"), Watcher(4)
    filmed = film(env, watcher.act, 3)
    steps = [int(picture[0, 0, 0]) for picture in filmed.pictures]
    assert steps == list(range(len(watcher.seen) + 1)) and filmed.per_s == 7


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("none", "returns none"),
        ("broken", "RuntimeError: no pencil here"),
        (np.zeros((4, 5), np.uint8), r"returns the shape \[4, 5\]"),
        (np.zeros((4, 5, 1), np.uint8), r"returns the shape \[4, 5, 1\]"),
        (np.zeros((4, 5, 4), np.uint8), r"returns the shape \[4, 5, 4\]"),
    ],
)
def test_what_draws_nothing(kind: Any, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(TOY), "entry_point", Drawn)
    filmed = film(EnvConfig(id=TOY, kwargs={"picture": kind}), Watcher(4).act, 3)
    with pytest.raises(ConfigError, match=expected) as info:
        list(filmed.pictures)
    assert TOY in info.value.cause and info.value.remedy


@pytest.mark.parametrize(
    ("pixels", "shown"),
    [
        (np.array([-3, 200, 256], np.int64), [0, 200, 255]),
        (np.array([-0.1, 0.5, 1.1]), [0, 128, 255]),
        (np.array([False, True, True]), [0, 255, 255]),
    ],
)
def test_colours_are_integers_or_shares(
    pixels: np.ndarray, shown: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gym.spec(TOY), "entry_point", Drawn)
    kwargs = {"picture": np.tile(pixels, (4, 5, 1))}
    picture = next(film(EnvConfig(id=TOY, kwargs=kwargs), Watcher(4).act, 3).pictures)
    assert picture.dtype == np.uint8 and picture[2, 2].tolist() == shown


@pytest.mark.filterwarnings("ignore:.*possible render_modes")
def test_what_has_no_pictures_cannot_be_filmed() -> None:
    with pytest.raises(ConfigError, match="cannot be made") as info:
        film(EnvConfig(id=TOY), Watcher(4).act, 3)
    for needed in ("__init__(self, render_mode=None)", "metadata", "render()"):
        assert needed in info.value.remedy


def test_what_gymnasium_draws_with_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    filmed = film(EnvConfig(id="CartPole-v1"), Watcher(2).act, 3)
    with pytest.raises(ConfigError, match="pygame") as info:
        list(filmed.pictures)
    assert info.value.remedy == "pip install 'drlnet[video]'"
