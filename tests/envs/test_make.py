"""What is refused, and how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlnet.envs import make_envs
from drlnet.errors import ConfigError, UnknownEnvironment


@pytest.mark.parametrize("env_id", ["CartPole-v9", "Cartpole-v1", "cartpole"])
def test_unknown_id_names_near_matches(env_id: str) -> None:
    with pytest.raises(UnknownEnvironment) as info:
        make_envs(env_id, 1)
    assert env_id in info.value.cause and "CartPole-v1" in info.value.remedy
    assert "\n" not in info.value.cause + info.value.remedy


MODULE = """
import gymnasium
gymnasium.register("Own{number}-v0", "gymnasium.envs.classic_control:CartPoleEnv")
"""


def test_a_module_that_registers_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_envs.py").write_text(MODULE.format(number=1), encoding="utf-8")
    envs, spaces = make_envs("own_envs:Own1-v0", 2)
    envs.close()
    assert spaces.num_actions == 2
    with pytest.raises(UnknownEnvironment, match="own_envs:Own2-v0"):
        make_envs("own_envs:Own2-v0", 1)


@pytest.mark.parametrize("content", [None, "raise ValueError('not\\ntoday')"])
def test_a_module_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if content is not None:
        (tmp_path / "broken_envs.py").write_text(content, encoding="utf-8")
    with pytest.raises(UnknownEnvironment, match="broken_envs") as info:
        make_envs("broken_envs:Own-v0", 1)
    assert "\n" not in info.value.cause
    assert "PYTHONPATH" in info.value.remedy


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
