"""CartPole without its velocities is CartPole otherwise; the T-maze asks for what it showed."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from drlnet.config import EnvConfig
from drlnet.envs import find_spaces
from drlnet.envs.registry import find_spec
from drlnet.errors import UnknownEnvironment

ID = "drlnet/CartPolePositions-v1"


def test_it_shows_the_positions_of_the_same_game() -> None:
    part, whole = gym.make(find_spec(ID)), gym.make("CartPole-v1")
    seen, _ = part.reset(seed=3)
    full, _ = whole.reset(seed=3)
    for step in range(200):
        assert part.observation_space.contains(seen)
        np.testing.assert_array_equal(seen, full[[0, 2]])
        seen, *rest = part.step(step // 2 % 2)
        full, *expected = whole.step(step // 2 % 2)
        assert rest == expected
        if rest[1] or rest[2]:
            break
    else:
        pytest.fail("the episode never ended")


def test_its_id_needs_no_module() -> None:
    spaces = find_spaces(EnvConfig(id=ID))
    assert spaces.obs_shape == (2,) and spaces.num_actions == 2
    assert find_spec(ID).max_episode_steps == 500


MAZE = "drlnet/TMaze-v0"


@pytest.mark.parametrize("right", [True, False])
def test_only_the_first_observation_tells_the_goal_of_a_t_maze(right: bool) -> None:
    maze, signs = gym.make(find_spec(MAZE)), set()
    for seed in range(20):
        seen, _ = maze.reset(seed=seed)
        sign = float(seen[0])
        signs.add(sign)
        for place in range(1, 21):
            seen, reward, terminated, truncated, _ = maze.step(0)
            assert seen.tolist() == [0, place == 20] and maze.observation_space.contains(seen)
            assert (reward, terminated, truncated) == (0, False, False)
        _, reward, terminated, truncated, _ = maze.step(1 if (sign > 0) == right else 2)
        assert (reward, terminated, truncated) == (4 if right else -0.1, True, False)
    assert signs == {-1.0, 1.0}


def test_what_leads_nowhere_in_a_t_maze_costs_a_little() -> None:
    maze = gym.make(find_spec(MAZE), length=2)
    maze.reset(seed=0)
    steps = [maze.step(action) for action in (1, 2, 0, 0, 0)]
    assert [step[1] for step in steps] == [-0.1, -0.1, 0, 0, -0.1]
    assert [step[0].tolist() for step in steps] == [[0, 0]] * 3 + [[0, 1]] * 2
    assert not any(step[2] for step in steps)
    *_, truncated, _ = [maze.step(0) for _ in range(55)][-1]
    assert truncated


def test_a_near_id_is_told() -> None:
    with pytest.raises(UnknownEnvironment) as info:
        find_spec("CartPolePositions-v1")
    assert ID in info.value.remedy
