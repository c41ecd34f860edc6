"""One row form in every autoreset mode, against playing each environment alone."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from toy import TOY, Toy

from drlnet.config import EnvConfig
from drlnet.envs import Rows, make_envs, ticks
from drlnet.errors import UserCodeError

Line = tuple[object, ...]


def lines_alone(seed: int, actions: list[int], longest: int) -> list[Line]:
    """(obs, reward, terminated, truncated, first, last) of one environment, by its definition."""
    env = Toy(longest)
    obs, _ = env.reset(seed=seed)
    lines: list[Line] = [(*obs, 0.0, False, False, True, False)]
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(np.int64(action - 1))
        ended = terminated or truncated
        lines.append((*obs, np.float32(reward), terminated, truncated, False, ended))
        if ended:
            obs, _ = env.reset()
            lines.append((*obs, 0.0, False, False, True, False))
    return lines


class Recorder:
    def __init__(self, num_envs: int):
        self.lines: list[list[Line]] = [[] for _ in range(num_envs)]

    def take(self, rows: Rows) -> None:
        for i, lines in enumerate(self.lines):
            if rows.mask is None or rows.mask[i]:
                lines.append(
                    (
                        *rows.obs[i],
                        rows.reward[i],
                        bool(rows.terminated[i]),
                        bool(rows.truncated[i]),
                        bool(rows.first[i]),
                        bool(rows.last[i]),
                    )
                )


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("longest", [1, 2, 6])
def test_same_rows_in_every_mode(mode: AutoresetMode, longest: int, vectorization: str) -> None:
    num_envs, seed = 3, 17
    rng = np.random.default_rng(longest)
    envs, spaces = make_envs(
        EnvConfig(id=TOY, kwargs={"longest": longest}, vectorization=vectorization),
        num_envs,
        autoreset_mode=mode,
    )
    assert (spaces.num_actions, spaces.first_action, spaces.obs_dtype) == (4, -1, "float32")
    recorder = Recorder(num_envs)
    taken: list[list[int]] = [[] for _ in range(num_envs)]
    rows = envs.reset(seed)
    recorder.take(rows)
    for _ in range(60):
        action = rng.integers(4, size=num_envs)
        for i in np.flatnonzero(~rows.last):  # a LAST row takes no action
            taken[i].append(int(action[i]))
        step = envs.step(action)
        for tick in ticks(step):
            recorder.take(tick)
        rows = step[1]
    envs.close()
    for i in range(num_envs):
        expected = lines_alone(seed + i, taken[i], longest)
        # In NEXT_STEP the row after a LAST one comes with the next tick.
        assert recorder.lines[i] == expected[: len(recorder.lines[i])]
        assert len(expected) - len(recorder.lines[i]) in (0, 1)
        env_steps = sum(not line[-1] for line in recorder.lines[i])
        assert env_steps in (len(taken[i]), len(taken[i]) + 1)


def test_cartpoles_own_vector_form_has_the_same_rows() -> None:
    """Both forms follow the same dynamics: from equal states, equal rows."""
    own, _ = make_envs(EnvConfig(id="CartPole-v1", vectorization="vector_entry_point"), 2)
    rows = own.reset(3)
    alone = gym.make("CartPole-v1")
    alone.reset()
    alone.unwrapped.state = tuple(rows.obs[0].astype(np.float64))  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    for _ in range(200):
        action = rng.integers(2, size=2)
        _, rows = own.step(action)
        obs, reward, terminated, truncated, _ = alone.step(int(action[0]))
        np.testing.assert_allclose(rows.obs[0], obs, atol=1e-4)
        assert (rows.reward[0], rows.terminated[0], rows.truncated[0]) == (
            reward,
            terminated,
            truncated,
        )
        if rows.last[0]:
            _, rows = own.step(action)
            assert rows.first[0] and not rows.last[0] and rows.reward[0] == 0
            break
    else:
        pytest.fail("random actions never ended the episode")


def test_rows_do_not_change_afterwards() -> None:
    envs, _ = make_envs(EnvConfig(id=TOY), 2)
    rows = envs.reset(1)
    before = rows.obs.copy()
    for _ in range(5):
        envs.step(np.zeros(2, dtype=np.int64))
    np.testing.assert_array_equal(rows.obs, before)
    envs.close()


def test_equal_seeds_give_equal_episodes() -> None:
    def play(seed: int) -> list[np.ndarray]:
        envs, _ = make_envs(EnvConfig(id="CartPole-v1", vectorization="vector_entry_point"), 4)
        rows = [envs.reset(seed).obs]
        rows += [envs.step(np.arange(4) % 2)[1].obs for _ in range(50)]
        return rows

    assert all(np.array_equal(a, b) for a, b in zip(play(5), play(5), strict=True))
    assert not np.array_equal(play(5)[0], play(6)[0])


class Switches(Toy):
    """The toy with observations of bool: the bits of its step."""

    def __init__(self) -> None:
        super().__init__(4)
        self.observation_space = gym.spaces.Box(0, 1, (3,), np.bool_)

    def _observe(self, action: int) -> np.ndarray:
        return np.array([self._step & 1, self._step & 2, self._step & 4], dtype=np.bool_)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_truth_is_a_byte_of_255(mode: AutoresetMode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(TOY), "entry_point", Switches)
    envs, spaces = make_envs(EnvConfig(id=TOY), 2, autoreset_mode=mode)
    assert spaces.obs_dtype == "uint8"
    steps = np.zeros(2, dtype=int)
    envs.reset(0)
    for _ in range(30):
        step = envs.step(np.zeros(2, dtype=np.int64))
        for rows in ticks(step):
            for i in range(2):
                if rows.mask is None or rows.mask[i]:
                    steps[i] = 0 if rows.first[i] else steps[i] + 1
                    assert list(rows.obs[i]) == [255 * bool(steps[i] & bit) for bit in (1, 2, 4)]
    envs.close()


class Buffered(gym.vector.VectorEnv[Any, Any, Any]):
    """Returns its own arrays, and clears them as it resets."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(self, num_envs: int):
        self.num_envs = num_envs
        self.single_observation_space = gym.spaces.Box(0, 9, (1,), np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self._obs = np.zeros((num_envs, 1), np.float32)
        self._reward, *self._ended = np.zeros(num_envs), *np.zeros((2, num_envs), np.bool_)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        begins = (options or {}).get("reset_mask", slice(None))
        for array in (self._obs, self._reward, *self._ended):
            array[begins] = 0
        return self._obs, {}

    def step(self, actions: Any) -> Any:
        self._obs += 1
        self._reward += 0.5
        self._ended[0][:] = self._obs[:, 0] == 3  # terminated
        self._ended[1][:] = self._obs[:, 0] == 3  # truncated
        return self._obs, self._reward, *self._ended, {}


def test_a_reset_takes_nothing_from_the_last_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(TOY), "vector_entry_point", Buffered)
    envs, _ = make_envs(EnvConfig(id=TOY, vectorization="vector_entry_point"), 2)
    recorder = Recorder(2)
    recorder.take(envs.reset(0))
    for _ in range(3):
        for tick in ticks(envs.step(np.zeros(2, dtype=np.int64))):
            recorder.take(tick)
    for lines in recorder.lines:
        assert lines[3:] == [
            (3, 1.5, True, True, False, True),
            (0, 0.0, False, False, True, False),
        ]


def test_wrong_actions_are_their_authors() -> None:
    envs, _ = make_envs(EnvConfig(id=TOY, kwargs={"longest": 1}), 2)
    envs.reset(0)
    for wrong, found in (
        (np.zeros(2, np.float32), "float32[2] as actions"),
        (np.zeros(3, np.int64), "int64[3] as actions"),
        ([0, 1], "a list as actions"),
        (np.array([3, 4]), "the action 4"),
        (np.array([-1, 0]), "the action -1"),
    ):
        with pytest.raises(UserCodeError) as told:
            envs.step(wrong)  # type: ignore[arg-type]
        assert told.value.cause == f"act() returned {found}"
        assert told.value.remedy.startswith("return 2 integers, 0 to 3")
    assert envs.step(np.array([3, 0]))[1].last.all()
    assert envs.step(np.array([4, -1]))[1].first.all()  # a LAST row takes no action
