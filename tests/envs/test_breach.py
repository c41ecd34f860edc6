"""An environment that returns what its spaces do not say: which shape, where another was due."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

from drlnet.config import EnvConfig
from drlnet.envs import RowEnv, crashed, make_envs
from drlnet.envs.spaces import spaces_of
from drlnet.envs.workers import EnvCrash
from drlnet.errors import UserCodeError

BREAKING = "drlnet/Breaking-v0"
_VALUES: dict[str, Any] = {
    "longer": np.zeros(5, np.float32),
    "deeper": np.zeros((4, 1), np.float32),
    "number": 0.0,
    "none": None,
    "ragged": [[1.0], [1.0, 2.0]],
    "halves": np.full(4, 0.5),
    "wide": np.zeros(4, np.int64),
    "pair": np.zeros(2),
}
_KINDS = {"obs": 0, "reward": 1, "terminated": 2, "truncated": 3}


class Breaking(gym.Env[Any, np.int64]):
    """what: the part that is broken; how: by which value; at: "reset", or the third step."""

    def __init__(self, what: str = "obs", how: str = "", at: str = "step", dtype: str = "float32"):
        inner = gym.spaces.Box(0, 1, (4,), np.dtype(dtype).type)
        self.action_space = gym.spaces.Discrete(2)
        self._nested = what == "key"
        self.observation_space = gym.spaces.Dict(at=inner) if self._nested else inner
        self._what, self._how, self._at, self._steps = what, how, at, 0

    def _obs(self, broken: bool) -> Any:
        right = np.zeros(4, self.observation_space.dtype or np.float32)
        value = _VALUES[self._how] if broken and self._what in ("obs", "key") else right
        return {"at": value} if self._nested else value

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if self._what == "forms" and self._at == "reset":
            return self._obs(broken=False)
        return self._obs(self._at == "reset"), {}

    def step(self, action: np.int64) -> Any:
        self._steps += 1
        broken = self._at == "step" and self._steps >= 3
        told: list[Any] = [self._obs(broken), 1.0, False, False, {}]
        if broken and self._what == "forms":
            del told[3]
        elif broken and self._what in ("reward", "terminated", "truncated"):
            told[_KINDS[self._what]] = _VALUES[self._how]
        return tuple(told)


gym.register(BREAKING, Breaking)


def failure(vectorization: Literal["sync", "async"], **kwargs: str) -> UserCodeError:
    """The error of two such environments, in a reset or within five steps."""
    config = EnvConfig(id=BREAKING, vectorization=vectorization, kwargs=kwargs)
    try:
        envs, _ = make_envs(config, 2)
    except UserCodeError as error:
        return error
    try:
        envs.reset(0)
        for _ in range(5):
            envs.step(np.zeros(2, np.int64))
    except Exception as error:  # as an actor does
        return crashed(BREAKING, "here", error)
    finally:
        envs.close()
    raise AssertionError("nothing was broken")


@pytest.mark.filterwarnings("ignore")  # gymnasium's own words
@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("at", ["reset", "step"])
@pytest.mark.parametrize(
    ("how", "dtype", "got"),
    [
        ("longer", "float32", "float32[5]"),
        ("deeper", "float32", "float32[4, 1]"),
        ("number", "float32", "float64[]"),
        ("none", "float32", "None"),
        ("ragged", "float32", "a list of unequal lengths"),
        ("halves", "uint8", "float64[4]"),
        ("wide", "uint8", "int64[4]"),
    ],
)
def test_an_observation_of_another_form(
    vectorization: Literal["sync", "async"], at: str, how: str, dtype: str, got: str
) -> None:
    error = failure(vectorization, how=how, at=at, dtype=dtype)
    when = "in its first reset" if at == "reset" else "here"
    assert error.cause == (
        f"environment {BREAKING} crashed {when}: "
        f"its observation is {got}, where its space says {dtype}[4]"
    )
    assert "observation_space" in error.remedy


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_one_part_of_an_observation(vectorization: Literal["sync", "async"]) -> None:
    cause = failure(vectorization, what="key", how="longer").cause
    assert cause.endswith("its observation['at'] is float32[5], where its space says float32[4]")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("what", ["reward", "terminated", "truncated"])
def test_what_is_no_scalar(vectorization: Literal["sync", "async"], what: str) -> None:
    error = failure(vectorization, what=what, how="pair")
    due = "one number" if what == "reward" else "one truth value"
    assert error.cause.endswith(f"its {what} is float64[2], where it should be {due}")
    assert "reward" in error.remedy and "\n" not in error.cause + error.remedy


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("at", ["reset", "step"])
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_values_of_the_old_forms(
    vectorization: Literal["sync", "async"], at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a traceback that ends in no file of a user's: this test is one.
    monkeypatch.setattr("drlnet.envs.workers.user_place", lambda error: "")
    error = failure(vectorization, what="forms", at=at)
    assert "values to unpack" in error.cause
    assert "(observation, info) from reset()" in error.remedy


def test_halves_and_wide_numbers_are_what_a_space_of_floats_holds() -> None:
    for vectorization in ("sync", "async"):
        for how in ("halves", "wide"):
            with pytest.raises(AssertionError, match="nothing was broken"):
                failure(vectorization, how=how)  # type: ignore[arg-type]


class Together(VectorEnv[Any, Any, Any]):
    """Two environments that step together; observations or rewards have another shape."""

    def __init__(self, obs: tuple[int, ...], reward: tuple[int, ...]):
        self.num_envs, self.metadata = 2, {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self.single_observation_space = gym.spaces.Box(0, 1, (4,), np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self._obs, self._reward = np.zeros(obs, np.float32), np.zeros(reward)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        return np.zeros((2, 4), np.float32), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        none = np.zeros(2, np.bool_)
        return self._obs, self._reward, none, none, {}


@pytest.mark.parametrize(
    ("obs", "reward", "cause"),
    [
        ((2, 5), (2,), "its observations (obs) have the shape [2, 5], where [2, 4] is due"),
        ((2, 4), (2, 1), "its rewards have the shape [2, 1], where [2] is due"),
    ],
)
def test_an_own_vectorised_form(obs: tuple[int, ...], reward: tuple[int, ...], cause: str) -> None:
    made = Together(obs, reward)
    spaces = spaces_of("Own", made.single_observation_space, made.single_action_space)
    envs = RowEnv(made, spaces)
    envs.reset()
    with pytest.raises(EnvCrash) as info:
        envs.step(np.zeros(2, np.int64))
    assert crashed("Own", "here", info.value).cause == f"environment Own crashed here: {cause}"
