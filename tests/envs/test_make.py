"""What is refused, and how it says so."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from toy import TOY, Toy

from drlnet.config import EnvConfig
from drlnet.envs import find_spaces, make_envs
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


class Large(Toy):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(0, 255, (256, 256, 3), np.uint8)


def test_observations_that_no_table_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(TOY), "entry_point", Large)
    with pytest.raises(ConfigError, match=r"\(uint8\[256, 256, 3\]\) that no.* 128 KiB") as info:
        find_spaces(EnvConfig(id=TOY))
    assert TOY in info.value.cause and "ResizeObservation" in info.value.remedy


class Unmakeable(Toy):
    def __init__(self) -> None:
        raise AttributeError("no licence\nfor this simulator")


def test_whatever_an_environment_raises_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(TOY), "entry_point", Unmakeable)
    with pytest.raises(ConfigError, match="AttributeError: no licence for this simulator"):
        make_envs(TOY, 1)


def test_no_own_vector_form() -> None:
    with pytest.raises(ConfigError, match="cannot be made"):
        make_envs("Acrobot-v1", 2, vectorization="vector_entry_point")


def test_an_id_may_name_the_module_that_registers_it() -> None:
    envs, spaces = make_envs(f"toy:{TOY}", 1)
    envs.close()
    assert spaces.num_actions == 4


def test_a_module_without_that_id_names_its_own() -> None:
    with pytest.raises(UnknownEnvironment) as info:
        make_envs("toy:drlnet/Tay-v0", 1)
    assert f"toy:{TOY}" in info.value.remedy


@pytest.mark.parametrize(
    ("source", "cause", "remedy"),
    [(None, "No module named", "PYTHONPATH"), ("1 / 0", "division by zero", "shows where")],
)
def test_a_module_that_cannot_be_imported(
    source: str | None, cause: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if source:
        (tmp_path / "own_envs.py").write_text(source, encoding="utf-8")
    with pytest.raises(UnknownEnvironment, match=cause) as info:
        make_envs("own_envs:Own-v0", 1)
    assert remedy in info.value.remedy and "\n" not in info.value.cause


def test_only_an_environment_without_a_limit_gets_another() -> None:
    envs, _ = make_envs(TOY, 1, kwargs={"longest": 10**6}, longest_episode=5)
    envs.reset(seed=0)
    last = [bool(envs.step(np.array([0]))[1].last[0]) for _ in range(5)]
    envs.close()
    assert last == [False] * 4 + [True]
    envs, _ = make_envs("CartPole-v1", 1, longest_episode=5)
    envs.reset(seed=0)
    assert not any(envs.step(np.array([t % 2]))[1].last[0] for t in range(6))
    envs.close()
