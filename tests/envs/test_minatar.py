"""MinAtar's rows against MinAtar itself."""

from __future__ import annotations

import numpy as np
import pytest
from installed import require

from drlnet.config import EnvConfig
from drlnet.envs import Rows, make_envs


@pytest.fixture(autouse=True)
def _installed() -> None:
    require("minatar")


@pytest.mark.parametrize("version", ["v0", "v1"])
@pytest.mark.parametrize("game", ["breakout", "seaquest"])
def test_rows_are_the_games_own(game: str, version: str) -> None:
    from minatar import Environment

    num_envs, seed = 2, 11
    env_id = f"MinAtar/{game.title()}-{version}"
    envs, spaces = make_envs(EnvConfig(id=env_id), num_envs)
    games = [Environment(game) for _ in range(num_envs)]  # sticky with 0.1, as published
    actions = games[0].minimal_action_set() if version == "v1" else list(range(6))
    assert spaces.num_actions == len(actions)
    assert (spaces.obs_shape, spaces.obs_dtype) == ((10, 10, games[0].n_channels), "uint8")
    rows = envs.reset(seed)
    for i, alone in enumerate(games):
        alone.seed(seed + i)
        alone.reset()
        np.testing.assert_array_equal(rows.obs[i], 255 * alone.state())
    rng, ended = np.random.default_rng(0), 0
    for _ in range(500):
        action = rng.integers(spaces.num_actions, size=num_envs)
        _, rows = envs.step(action)
        for i, alone in enumerate(games):
            if rows.first[i]:
                alone.reset()
                reward, over = 0, False
            else:
                reward, over = alone.act(actions[action[i]])
            np.testing.assert_array_equal(rows.obs[i], 255 * alone.state())
            found = (rows.reward[i], rows.terminated[i], rows.last[i], rows.truncated[i])
            assert found == (reward, over, over, False)
            ended += over
    envs.close()
    assert ended > 4


def trace(seed: int, **kwargs: float) -> list[Rows]:
    envs, _ = make_envs(EnvConfig(id="MinAtar/Breakout-v1", kwargs=dict(kwargs)), 2)
    rows = [envs.reset(seed)]
    rows += [envs.step(np.array([t % 3, t % 3]))[1] for t in range(60)]
    envs.close()
    return rows


def test_seeds_and_arguments() -> None:
    def same(a: list[Rows], b: list[Rows]) -> bool:
        return all(np.array_equal(x.obs, y.obs) for x, y in zip(a, b, strict=True))

    rows = trace(3)
    assert same(rows, trace(3)) and not same(rows, trace(5))
    assert any((row.obs[0] != row.obs[1]).any() for row in rows)
    assert not same(rows, trace(3, sticky_action_prob=0.0))
