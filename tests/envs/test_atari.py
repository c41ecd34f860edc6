"""Atari's rows against gymnasium's own wrappers, frame by frame, and what lives and seeds do."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing
from installed import require

from drlnet.adders.n_step import transition_row
from drlnet.config import load
from drlnet.envs import Rows, find_spaces, make_envs
from drlnet.envs.settings import AtariSettings
from drlnet.errors import ConfigError

EXACT = {"noop_max": 0, "sticky_actions": 0.0}  # the rest of a game follows from the actions


@pytest.fixture(autouse=True)
def _installed() -> None:
    require("ale_py", "cv2")


def settings(game: str, **changed: Any) -> AtariSettings:
    env = load(f"ALE/{game}-v5").env
    assert isinstance(env, AtariSettings)
    return dataclasses.replace(env, **changed)


def play(
    env: AtariSettings, steps: int, num_envs: int = 1, seed: int = 0, **how: Any
) -> Iterator[tuple[np.ndarray, Rows]]:
    """(the actions that led to it, rows) from the first row on; random actions."""
    rng = np.random.default_rng(seed)
    envs, spaces = make_envs(env, num_envs, **how)
    rows = envs.reset(seed)
    yield np.zeros(num_envs, dtype=np.int64), rows
    for _ in range(steps):
        action = rng.integers(spaces.num_actions, size=num_envs)
        _, rows = envs.step(action)
        yield action, rows
    envs.close()


class ByWrappers:
    """The same game by gymnasium's wrappers: one environment, reset by hand."""

    def __init__(self, env: AtariSettings):
        game = gym.make(
            f"ale_py:{env.id}",
            frameskip=1,
            repeat_action_probability=0.0,
            max_num_frames_per_episode=env.max_frames,
            full_action_space=env.full_action_space,
        )
        self._env = AtariPreprocessing(
            game,
            noop_max=0,
            frame_skip=env.frame_skip,
            screen_size=env.screen_size,
            grayscale_obs=env.grayscale,
        )
        self._lives = 0

    def reset(self) -> np.ndarray:
        obs: np.ndarray = self._env.reset(seed=0)[0]
        self._lives = self._env.ale.lives()
        return obs

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, bool]:
        """(obs, reward, game over, truncated, whether a life was lost)."""
        obs, reward, game_over, truncated, _ = self._env.step(action)
        before, self._lives = self._lives, self._env.ale.lives()
        return obs, float(reward), bool(game_over), bool(truncated), self._lives < before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("game", "life_loss", "changed", "steps", "episodes"),
    [
        ("Pong", "discount", {}, 1100, 1),  # a game without lives
        ("Breakout", "ignore", {}, 600, 2),
        ("Breakout", "discount", {}, 600, 2),
        (
            *("Breakout", "discount"),
            *({"screen_size": 42, "grayscale": False, "max_frames": 301}, 200, 2),
        ),
        ("Pong", "ignore", {"screen_size": 100, "frame_skip": 3, "max_frames": 400}, 300, 2),
        (
            *("Breakout", "ignore"),
            *({"frame_skip": 1, "full_action_space": True, "max_frames": 450}, 500, 1),
        ),
    ],
)
def test_rows_are_those_of_gymnasiums_wrappers(
    game: str, life_loss: str, changed: Mapping[str, Any], steps: int, episodes: int
) -> None:
    env = settings(game, **EXACT, **changed, life_loss=life_loss)
    other = ByWrappers(env)
    lost_lives = ended = 0
    for action, rows in play(env, steps):
        if rows.first[0]:
            expected, reward, game_over, truncated, lost = other.reset(), 0.0, False, False, False
        else:
            expected, reward, game_over, truncated, lost = other.step(int(action[0]))
        np.testing.assert_array_equal(rows.obs[0], expected)  # not one pixel differs
        terminated = game_over or (lost and life_loss == "discount")
        assert (rows.reward[0], rows.terminated[0], rows.truncated[0], rows.last[0]) == (
            reward,
            terminated,
            truncated,
            game_over or truncated,
        )
        lost_lives += lost
        ended += rows.last[0]
    assert ended >= episodes
    assert (lost_lives > 0) == (game == "Breakout")


def test_a_lost_life_stops_the_bootstrap_and_not_the_episode() -> None:
    env = settings("Breakout", life_loss="discount")
    for action, rows in play(env, 400, num_envs=4):
        discount = transition_row(rows, action)["discount"]
        if (rows.terminated & ~rows.last).any():
            assert (discount[rows.terminated] == 0).all() and (
                discount[~rows.terminated] == 1
            ).all()
            break
    else:
        pytest.fail("random play lost no life")


@pytest.mark.slow
def test_an_evaluation_never_takes_a_lost_life_for_an_end() -> None:
    env = settings("Breakout", life_loss="discount")
    for _, rows in play(env, 400, num_envs=4, training=False):
        np.testing.assert_array_equal(rows.terminated, rows.last)


@pytest.mark.slow
def test_stickiness_no_ops_and_seeds() -> None:
    def trace(seed: int, steps: int = 40, **changed: Any) -> list[np.ndarray]:
        env = settings("Freeway", **changed)
        return [rows.obs for _, rows in play(env, steps, num_envs=3, seed=seed)]

    def same(left: list[np.ndarray], right: list[np.ndarray]) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(left, right, strict=True))

    once = trace(0)
    assert same(once, trace(0, num_threads=2)) and not same(once, trace(7))
    far = 2**31 - 2  # the emulator's seeds have 31 bits
    assert same(trace(far, steps=5), trace(far, steps=5))
    assert (once[0][0] != once[0][1]).any()  # each game draws its own no-ops
    without = [trace(0, steps=0, noop_max=0)[0][i] for i in range(3)]
    assert np.array_equal(without[0], without[1])
    assert not same(trace(0, noop_max=0), trace(0, noop_max=0, sticky_actions=0.0))


def test_rows_do_not_change_afterwards() -> None:
    held = [(rows.obs, rows.obs.copy()) for _, rows in play(settings("Pong"), 60, num_envs=2)]
    assert all(np.array_equal(obs, copy) for obs, copy in held)
    assert any((a != b).any() for (a, _), (b, _) in itertools.pairwise(held))


def test_the_limit_of_an_evaluation_is_in_steps() -> None:
    env = settings("Pong", frame_skip=2)
    last = [bool(rows.last[0]) for _, rows in play(env, 9, max_episode_steps=5)]
    assert last == [False] * 5 + [True] + [False] * 4


@pytest.mark.parametrize(
    ("changed", "cause", "remedy"),
    [
        ({"kwargs": {"noop_max": 3}}, "multiple values for keyword argument 'noop_max'", "[env]"),
        ({"wrappers": ("gymnasium.wrappers:FlattenObservation",)}, "none", "ale_py:ALE/Pong-v5"),
    ],
)
def test_what_settings_cannot_be(changed: Mapping[str, Any], cause: str, remedy: str) -> None:
    with pytest.raises(ConfigError, match=cause) as info:
        find_spaces(settings("Pong", **changed))
    assert remedy in info.value.remedy and "\n" not in info.value.cause


def test_no_rom(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match=r"ALE/Pong-v5 has no ROM: .*pong\.bin") as info:
        find_spaces(settings("Pong"))
    assert "ALE_ROMS_DIR" in info.value.remedy and "\n" not in info.value.cause
