"""Dict and Discrete observations, MultiDiscrete actions and action masks, in rows."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from algos.transitions import batch_of
from gymnasium.vector import AutoresetMode
from levers import LEVERS, STEPS, Levers

from drlnet.adders import observed, tensors, transition_columns, transition_item
from drlnet.algos import make_algorithm
from drlnet.client import Column
from drlnet.config import EnvConfig, load
from drlnet.envs import find_spaces, make_envs, ticks
from drlnet.errors import ConfigError, UnknownEnvironment

COLUMNS = {
    "obs.valid": Column("uint8", (6,)),
    "obs.clock.step": Column("int32"),
    "obs.clock.left": Column("float32"),
    "obs.image": Column("uint8", (2, 2)),
}


def levers(**kwargs: Any) -> EnvConfig:
    return EnvConfig(id=LEVERS, kwargs=kwargs)


def test_a_column_for_each_leaf_and_one_for_the_mask() -> None:
    spaces = find_spaces(levers())
    columns = transition_columns(spaces)
    assert {name: columns[name] for name in COLUMNS} == COLUMNS
    assert columns["action_mask"] == Column("bool", (6,)) and "obs" not in columns
    views = transition_item(3, 1, spaces).views
    assert {"obs.clock.left", "next_obs.clock.left", "next_action_mask"} <= set(views)
    assert (spaces.obs_shape, spaces.obs_dtype, spaces.num_actions) == ((17,), "float32", 6)


def test_no_column_for_a_mask_that_is_not_offered() -> None:
    assert "action_mask" not in transition_columns(find_spaces(levers(masked=False)))
    assert "next_action_mask" not in transition_item(3, 1, find_spaces(levers(masked=False))).views


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_rows_hold_leaves_and_masks_of_their_own(mode: AutoresetMode, vectorization: str) -> None:
    rng, count = np.random.default_rng(0), 3
    config = EnvConfig(id=LEVERS, vectorization=vectorization)  # type: ignore[arg-type]
    envs, _ = make_envs(config, count, autoreset_mode=mode)
    rows, ended = envs.reset(7), 0
    for _ in range(40):
        assert rows.action_mask is not None
        # An action that is not valid raises.
        action = np.where(rows.action_mask, rng.random((count, 6)), -1).argmax(1)
        step = envs.step(action)
        rows = step[1]
        for tick in ticks(step):
            assert tick.leaves is not None and tick.action_mask is not None
            present = np.ones(count, bool) if tick.mask is None else tick.mask
            ended += np.count_nonzero(tick.last & present)
            # Of a LAST row, too: what is valid there counts in a target.
            valid = tick.leaves["obs.valid"] == 255
            np.testing.assert_array_equal(tick.action_mask[present], valid[present])
            number = tick.leaves["obs.clock.step"]
            np.testing.assert_array_equal(tick.last[present], (number == STEPS)[present])
            image = tick.leaves["obs.image"].reshape(count, 4) / np.float32(255)
            clock = tick.leaves["obs.clock.left"][:, None]
            one_hot = np.eye(STEPS + 1)[number]
            seen = np.concatenate([clock, one_hot, image, valid], axis=1)  # by name
            np.testing.assert_allclose(tick.obs, seen, rtol=1e-6)
    envs.close()
    assert ended >= 15


class Numbered(Levers):
    """Shows the step alone, numbered from -2."""

    def __init__(self) -> None:
        super().__init__(masked=False)
        self.observation_space = gym.spaces.Discrete(STEPS + 1, start=-2)

    def _observe(self) -> Any:
        return self._step - 2


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_discrete_observation_is_stored_as_one_number_and_seen_one_hot(
    mode: AutoresetMode, vectorization: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gym.spec(LEVERS), "entry_point", Numbered)
    config = EnvConfig(id=LEVERS, vectorization=vectorization)  # type: ignore[arg-type]
    envs, spaces = make_envs(config, 3, autoreset_mode=mode)
    assert transition_columns(spaces)["obs"] == Column("int32")
    assert spaces.num_states == STEPS + 1 and spaces.obs_shape == (STEPS + 1,)
    assert find_spaces(EnvConfig(id="CartPole-v1")).num_states is None
    rows, step, ended = envs.reset(7), 0, 0
    for _ in range(20):
        given = envs.step(np.zeros(3, np.int64))
        for tick in ticks(given):
            present = np.ones(3, bool) if tick.mask is None else tick.mask
            step = 0 if tick.first[present].all() else step + 1
            assert tick.leaves is not None
            assert (tick.leaves["obs"][present] == step).all()
            np.testing.assert_array_equal(tick.obs[present], np.eye(STEPS + 1)[[step] * 3])
            ended += int(tick.last[present].sum())
        rows = given[1]
    envs.close()
    assert ended >= 9 and rows.leaves is not None and rows.leaves["obs"].dtype == np.int32


def test_a_discrete_batch_is_seen_one_hot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(LEVERS), "entry_point", Numbered)
    spaces = find_spaces(EnvConfig(id=LEVERS))
    stacked = np.array([[0, 1], [4, 5]], np.int32)
    views = {"obs": stacked, "next_obs": stacked[:, 1], "action": np.array([1, 2])}
    seen = observed(spaces, views)
    np.testing.assert_array_equal(seen["obs"], np.eye(STEPS + 1, dtype=np.float32)[stacked])
    np.testing.assert_array_equal(seen["next_obs"], np.eye(STEPS + 1)[stacked[:, 1]])
    assert seen["action"] is views["action"]


@pytest.mark.parametrize("away", [(), ("obs.image", "next_obs.image")])
def test_a_batch_of_leaves_is_the_same_tensor_wherever_its_rows_lie(away: tuple[str, ...]) -> None:
    spaces, rng = find_spaces(levers()), np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for name, column in COLUMNS.items():
        high = STEPS + 1 if column.dtype == "int32" else 256
        drawn = rng.integers(high, size=(64, 3, *column.shape)).astype(column.dtype)
        arrays |= {name: drawn, f"next_{name}": drawn[:, -1]}
    held = arrays | {name: torch.from_numpy(arrays[name]) for name in away}
    batch: Any = batch_of(held, np.ones(64))
    seen = tensors(batch, torch.device("cpu"), spaces)
    assert set(seen) == {"obs", "next_obs", "length"}
    for name, known in observed(spaces, arrays).items():
        assert seen[name].dtype == torch.float32
        np.testing.assert_array_equal(seen[name], known)


@pytest.mark.parametrize("value", [-3, STEPS - 1])
def test_a_number_that_a_discrete_does_not_have_is_an_error(
    value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gym.spec(LEVERS), "entry_point", Numbered)
    spaces = find_spaces(EnvConfig(id=LEVERS))
    assert spaces.own_obs(STEPS - 2) == {"obs": STEPS}
    with pytest.raises(ValueError, match=rf"is not in Discrete\({STEPS + 1}, start=-2\)"):
        spaces.own_obs(np.array([0, value]))


@pytest.mark.parametrize("net", ["nature", "impala"])
def test_a_network_of_images_refuses_numbers(net: str) -> None:
    config = load("FrozenLake-v1", flags={"algo.name": "dqn", "net.name": net})
    with pytest.raises(
        ConfigError, match=r"sees one image.* FrozenLake-v1 are Discrete\(16\)"
    ) as e:
        make_algorithm(config, find_spaces(config.env))
    assert "--algo tabular" in e.value.remedy and "net.name=mlp" in e.value.remedy


class Wrong(Levers):
    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.ones((2, 3), np.int8)}


def test_a_mask_of_another_shape_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(LEVERS), "entry_point", Wrong)
    with pytest.raises(ConfigError, match=r"has the shape \[2, 3\]") as info:
        find_spaces(levers())
    assert "one truth value for each of its 6 actions" in info.value.remedy


class Forbidding(Levers):
    def _draw(self) -> None:
        self.valid = np.ones(6, bool)

    def _info(self) -> dict[str, Any]:
        kinds: list[dict[str, Any]] = [
            {"action_mask": np.eye(6, dtype=np.int8)[2]},
            {"action_mask": np.zeros(6, np.int8)},
            {},
        ]
        return kinds[self._step % 3]


def test_where_nothing_is_said_or_left_everything_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(LEVERS), "entry_point", Forbidding)
    envs, _ = make_envs(levers(), 1)
    masks = [envs.reset(0).action_mask]
    for _ in range(3):
        masks.append(envs.step(np.array([2]))[1].action_mask)
    envs.close()
    counts = [int(mask.sum()) for mask in masks if mask is not None]
    assert counts == [1, 6, 6, 1]


def test_combinations_are_numbered_with_the_last_part_fastest() -> None:
    spaces = find_spaces(levers())
    own = spaces.own_actions(np.arange(6))
    assert own.tolist() == [[0, -1], [0, 0], [0, 1], [1, -1], [1, 0], [1, 1]]


class ManyLevers(Levers):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = gym.spaces.MultiDiscrete([11, 11, 11])


def test_too_many_combinations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(LEVERS), "entry_point", ManyLevers)
    with pytest.raises(UnknownEnvironment, match=r"1,331 combinations.*1,024 at most") as info:
        find_spaces(levers())
    assert LEVERS in info.value.cause and "wrap" in info.value.remedy


class Words(Levers):
    def __init__(self) -> None:
        super().__init__()
        inner = gym.spaces.Dict({"mission": gym.spaces.Text(5)})
        self.observation_space = gym.spaces.Dict({"told": inner})


def test_a_leaf_that_no_column_holds_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(LEVERS), "entry_point", Words)
    with pytest.raises(UnknownEnvironment, match=r"Text.* at told.mission of its obs"):
        find_spaces(levers())


class Keyed(Levers):
    """Its observations have keys that are no text."""

    def __init__(self, twice: bool = False) -> None:
        super().__init__(masked=False)
        box = gym.spaces.Box(-1, 1, (2,))
        numbered: dict[Any, Any] = {7: box}
        inner = gym.spaces.Dict(numbered)
        parts: dict[Any, Any] = {"a.7": box, "a": inner} if twice else {0: box, 1: inner}
        self.observation_space = gym.spaces.Dict(parts)

    def _observe(self) -> Any:
        return {0: np.full(2, 0.25, np.float32), 1: {7: np.full(2, 0.5, np.float32)}}


def test_keys_may_be_numbers_but_not_the_same_name_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gym.spec(LEVERS), "entry_point", Keyed)
    config = EnvConfig(id=LEVERS)
    envs, spaces = make_envs(config, 2)
    assert list(spaces.leaves) == ["obs.0", "obs.1.7"]
    assert envs.reset(0).obs.tolist() == [[0.25, 0.25, 0.5, 0.5]] * 2
    envs.close()
    with pytest.raises(UnknownEnvironment, match=r"two observations of the name 'a\.7'"):
        find_spaces(levers(twice=True))


@pytest.mark.parametrize("net", ["nature", "impala"])
@pytest.mark.parametrize("stack", [1, 4])
def test_a_network_of_images_refuses_a_dict(net: str, stack: int) -> None:
    config = load(LEVERS, flags={"net.name": net, "net.frame_stack": stack})
    with pytest.raises(ConfigError, match=r"sees one image.* Dict: .*obs.image uint8\[2, 2\]") as e:
        make_algorithm(config, find_spaces(config.env))
    assert "net.name=mlp" in e.value.remedy and "\n" not in e.value.cause
