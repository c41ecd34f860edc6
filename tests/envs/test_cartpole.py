"""CartPole without its velocities is CartPole otherwise."""

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


def test_a_near_id_is_told() -> None:
    with pytest.raises(UnknownEnvironment) as info:
        find_spec("CartPolePositions-v1")
    assert ID in info.value.remedy
