"""What is refused, and how it says so."""

from __future__ import annotations

import pytest

from drlnet.envs import make_envs
from drlnet.errors import ConfigError, UnknownEnvironment


@pytest.mark.parametrize("env_id", ["CartPole-v9", "Cartpole-v1", "cartpole"])
def test_unknown_id_names_near_matches(env_id: str) -> None:
    with pytest.raises(UnknownEnvironment) as info:
        make_envs(env_id, 1)
    assert env_id in info.value.cause and "CartPole-v1" in info.value.remedy
    assert "\n" not in info.value.cause + info.value.remedy


def test_continuous_actions_are_refused() -> None:
    with pytest.raises(UnknownEnvironment, match="action space"):
        make_envs("Pendulum-v1", 1)


def test_other_observations_are_refused() -> None:
    with pytest.raises(UnknownEnvironment, match="observation space"):
        make_envs("FrozenLake-v1", 1)


def test_unknown_keyword() -> None:
    with pytest.raises(ConfigError, match="cannot be made") as info:
        make_envs("CartPole-v1", 1, kwargs={"gravity_of_mars": True})
    assert "\n" not in info.value.cause


def test_no_own_vector_form() -> None:
    with pytest.raises(ConfigError, match="cannot be made"):
        make_envs("Acrobot-v1", 2, vectorization="vector_entry_point")
