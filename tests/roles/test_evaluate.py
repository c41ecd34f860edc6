"""Evaluation: the same number of episodes from each environment, each return right."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import nn
from toy import TOY, Toy

from drlnet.algos import Algorithm, make_algorithm
from drlnet.algos.players import GreedyQ
from drlnet.config import Config, EnvConfig, load, repeatable
from drlnet.envs import find_spaces, make_envs
from drlnet.errors import CheckpointMismatch, ConfigError
from drlnet.nets.params import pack, save
from drlnet.roles.evaluate import evaluate, evaluate_checkpoint, film_checkpoint, play


class Second(nn.Module):
    """Always prefers action 1."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(len(obs), 4)


def returns_alone(seed: int, episodes: int) -> list[float]:
    env = Toy()
    returns = []
    for episode in range(episodes):
        env.reset(seed=seed if episode == 0 else None)
        total, ended = 0.0, False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(np.int64(0))
            total, ended = total + np.float32(reward), terminated or truncated
        returns.append(float(total))
    return returns


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_each_environment_plays_its_quota(mode: AutoresetMode) -> None:
    envs, _ = make_envs(EnvConfig(id=TOY), 3, autoreset_mode=mode)
    found = play(envs, GreedyQ(Second()), quota=4, seed=11, env_id=TOY)
    envs.close()
    expected = [value for i in range(3) for value in returns_alone(11 + i, 4)]
    assert found.returns == pytest.approx(expected, rel=1e-5)


def config(*sets: str) -> Config:
    return load("CartPole-v1", sets=["net.hidden_sizes=[8]", "eval.num_envs=5", *sets])


def algorithm_of(made: Config) -> Algorithm[Any]:
    return make_algorithm(made, find_spaces(made.env))


def params_of(made: Config) -> Any:
    return algorithm_of(made).learner("cpu", 0).params()


def test_deterministic_and_other_seeds_for_another_purpose() -> None:
    made = config()
    params = params_of(made)
    gate = evaluate(made, params, 20, "gate")
    assert gate == evaluate(made, params, 20, "gate") and len(gate.returns) == 20
    assert gate.returns != evaluate(made, params, 20, "confirm").returns
    assert gate.never_ended == 0


def test_a_time_limit_counts_as_never_ended() -> None:
    made = config("eval.max_episode_steps=5")
    found = evaluate(made, params_of(made), 10)
    assert found.never_ended == 10 and found.returns == [5.0] * 10


class Endless(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Every second environment ends its episodes, after 3 steps of reward 1; the others never."""

    metadata: ClassVar = {"autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int = 1):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.single_action_space = gym.spaces.Discrete(4)
        self._obs = np.zeros((num_envs, 2), np.float32)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._steps, self._last = np.zeros(self.num_envs), np.zeros(self.num_envs, bool)
        return self._obs, {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, Any, Any, Any, dict[str, Any]]:
        reward = np.where(self._last, 0.0, 1.0)
        self._steps = np.where(self._last, 0, self._steps + 1)
        self._last = (self._steps == 3) & (np.arange(self.num_envs) % 2 == 1)
        return self._obs, reward, self._last, np.zeros_like(self._last), {}


def test_a_vector_form_without_a_limit_is_given_up_and_begun_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gym.spec(TOY), "vector_entry_point", Endless)
    envs, _ = make_envs(
        EnvConfig(id=TOY, vectorization="vector_entry_point"), 4, longest_episode=10
    )
    found = play(envs, GreedyQ(Second()), quota=2, seed=0, env_id=TOY)
    assert found.returns == [10.0, 10.0, 3.0, 3.0] * 2
    assert found.never_ended == 4


def test_a_vector_form_that_takes_no_limit_has_the_evaluations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gym.spec(TOY), "vector_entry_point", Endless)
    own = EnvConfig(id=TOY, vectorization="vector_entry_point")
    made = dataclasses.replace(config("eval.max_episode_steps=7", "eval.num_envs=2"), env=own)
    found = evaluate(made, params_of(made), 4)
    assert found.returns == [7.0, 7.0, 3.0, 3.0] and found.never_ended == 2


def test_a_crash_is_the_environments() -> None:
    made = dataclasses.replace(config(), env=EnvConfig(id=TOY, kwargs={"crash_at": 1}))
    with pytest.raises(ConfigError, match=f"{TOY} crashed in an evaluation: RuntimeError: the toy"):
        evaluate(made, params_of(made), 10)


def test_a_close_that_fails_hides_no_crash(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(_toy: Toy) -> None:
        raise OSError("the door is stuck")

    made = dataclasses.replace(config(), env=EnvConfig(id=TOY, kwargs={"crash_at": 1}))
    params = params_of(made)
    monkeypatch.setattr(Toy, "close", close)
    with pytest.raises(ConfigError, match="in an evaluation: RuntimeError: the toy"):
        evaluate(made, params, 10)
    assert "crashed as it was closed: OSError: the door is stuck" in capfd.readouterr().err


def test_checkpoint_of_another_architecture(tmp_path: Path) -> None:
    save(tmp_path / "c", pack(params_of(config()), algorithm_of(config()).architecture))
    assert len(evaluate_checkpoint(config(), tmp_path / "c", 5).returns) == 5
    with pytest.raises(CheckpointMismatch):
        evaluate_checkpoint(config("net.hidden_sizes=[16]"), tmp_path / "c", 5)


def test_a_film_is_played_by_the_evaluations_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same number format, which is measured elsewhere."""
    made = load("ALE/Pong-v5")
    assert made.net != repeatable(made).net
    algorithm = make_algorithm(repeatable(made), find_spaces(made.env))
    save(tmp_path / "c", pack(algorithm.learner("cpu", 0).params(), algorithm.architecture))
    players: list[Any] = []
    monkeypatch.setattr("drlnet.roles.evaluate.film", lambda _env, act, *_: players.append(act))
    film_checkpoint(made, tmp_path / "c")
    torso = players[0].__self__.net.torso
    assert not torso._auto and not torso._form.bfloat16


def test_an_evaluation_that_takes_too_long_counts_what_has_ended() -> None:
    found = evaluate(config(), params_of(config()), 100, max_seconds=1e-9)
    assert found.returns == [] and np.isnan(found.mean) and found.planned == 100
