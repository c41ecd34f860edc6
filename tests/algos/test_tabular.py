"""The table's update against loops, its edges, and value iteration's optimum reached."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from algos.transitions import batch_of
from oracle import OracleBatch, OracleTable

import drlnet
from drlnet.adders.observations import Leaf
from drlnet.algos import TABLE, make_algorithm, tabular
from drlnet.client import Column, View
from drlnet.config import load
from drlnet.envs import EnvSpaces, Streams, find_spaces, make_envs
from drlnet.errors import ConfigError
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder
from drlnet.metrics.catalog import find
from drlnet.nets.params import load as load_params
from drlnet.roles.evaluate import evaluate_checkpoint
from drlnet.roles.serial import serial

STATES, ACTIONS = 5, 3
SPACES = EnvSpaces(
    (STATES,), "float32", ACTIONS, 0, leaves={"obs": Leaf((), "int32", (), count=STATES)}
)


NAMED = {"algo.name": "tabular"}


def learner_of(**settings: Any) -> tabular.TabularLearner:
    flags = {**NAMED, **{f"algo.{name}": one for name, one in settings.items()}}
    made = make_algorithm(load(flags=flags), SPACES).learner("cpu", 1)
    assert isinstance(made, tabular.TabularLearner)
    return made


def random_batch(size: int, seed: int = 0, *, masked: bool = False) -> OracleBatch:
    rng = np.random.default_rng(seed)
    views = {
        "obs": rng.integers(STATES, size=size).astype(np.int32),
        "action": rng.integers(ACTIONS, size=size).astype(np.int32),
        "reward": rng.normal(size=(size, 1)).astype(np.float32),
        "discount": (rng.random((size, 1)) < 0.8).astype(np.float32),
        "next_obs": rng.integers(STATES, size=size).astype(np.int32),
        "next_action": rng.integers(ACTIONS, size=size).astype(np.int32),
    }
    if masked:
        views["next_action_mask"] = rng.random((size, ACTIONS)) < 0.5
        views["next_action_mask"][np.arange(size), rng.integers(ACTIONS, size=size)] = True
    return batch_of(views, np.ones(size, np.int64))


def step(learner: tabular.TabularLearner, batch: OracleBatch) -> None:
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    assert learned.priorities == {}
    assert all(find(f"client.learner.{name}") for name in learned.figures)


def targets_by_loop(table: np.ndarray, batch: OracleBatch, rule: str, gamma: float) -> list[float]:
    targets = []
    for i, state in enumerate(batch.views["next_obs"]):
        valid = batch.views.get("next_action_mask", np.ones((len(batch.keys), ACTIONS), bool))[i]
        best = max(float(table[state, a]) for a in range(ACTIONS) if valid[a])
        own = float(table[state, batch.views["next_action"][i]])
        value = own if rule == "sarsa" else best
        reward, discount = float(batch.views["reward"][i, 0]), float(batch.views["discount"][i, 0])
        targets.append(reward + gamma * discount * value)
    return targets


@pytest.mark.parametrize("rule", ["q_learning", "sarsa"])
@pytest.mark.parametrize("masked", [False, True])
def test_batches_follow_the_equations(rule: str, masked: bool) -> None:
    """Against a loop, over many batches in which every pair appears several times."""
    learner = learner_of(rule=rule, gamma=0.9, learning_rate=0.5, learning_rate_power=0.7)
    table, draws = np.zeros((STATES, ACTIONS)), np.zeros((STATES, ACTIONS), int)
    for seed in range(20):
        batch = random_batch(64, seed, masked=masked)
        targets = targets_by_loop(table, batch, rule, 0.9)
        of: dict[tuple[int, int], list[float]] = {}
        for i, target in enumerate(targets):
            pair = int(batch.views["obs"][i]), int(batch.views["action"][i])
            of.setdefault(pair, []).append(target)
        for pair, mine in of.items():
            rate = 0.5 / (1 + draws[pair]) ** 0.7
            moved = 1 - (1 - rate) ** len(mine)
            table[pair] += moved * (sum(mine) / len(mine) - table[pair])
            draws[pair] += len(mine)
        step(learner, batch)
        np.testing.assert_allclose(learner.table.numpy(), table, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(learner.draws.numpy(), draws)
    assert learner.draws.sum() == 20 * 64 and learner.steps == 20


@pytest.mark.parametrize("size", [1, 2, 4, 5])
def test_several_of_a_pair_are_updates_one_after_another_in_the_mean_over_orders(
    size: int,
) -> None:
    learner = learner_of(learning_rate=0.3, learning_rate_power=0.0, gamma=0.0)
    learner.table[2, 1] = 4.0
    batch = random_batch(size)
    batch.views["obs"][:], batch.views["action"][:] = 2, 1
    rewards, ends = batch.views["reward"][:, 0].astype(np.float64), []
    for order in itertools.permutations(rewards):
        value = 4.0
        for reward in order:
            value += 0.3 * (reward - value)
        ends.append(value)
    step(learner, batch)
    assert float(learner.table[2, 1]) == pytest.approx(np.mean(ends), abs=1e-9)
    others = torch.ones_like(learner.table, dtype=torch.bool)
    others[2, 1] = False
    assert not learner.table[others].any()


def test_a_row_is_one_number_and_sarsa_reads_the_next_action() -> None:
    for rule, names in {"q_learning": set(), "sarsa": {"next_action"}}.items():
        settings = make_algorithm(load(flags={**NAMED, "algo.rule": rule}), SPACES).tables()[TABLE]
        assert settings.columns["obs"] == Column("int32")
        shown = {"obs", "next_obs", "action", "reward", "discount"}
        assert settings.item.views.keys() == shown | names
    assert settings.item.views["next_action"] == View("action", 1)


def test_the_edges_of_an_episode() -> None:
    """Rows of a real agent: SARSA's next action stands in a LAST row, which took none."""
    kwargs = {"max_episode_steps": 4, "is_slippery": False}
    config = load("FrozenLake-v1", flags={**NAMED, "algo.rule": "sarsa"}, sets={
        "env.kwargs": kwargs, "policy.epsilon_base": 1.0,
    })  # fmt: skip
    envs, spaces = make_envs(config.env, 8)
    algo = make_algorithm(config, spaces)
    streams = Streams(np.arange(8), first=0, total=8, rng=np.random.default_rng(1))
    settings = algo.tables()[TABLE]
    agent, table = algo.agent(streams), OracleTable(settings.columns, settings.item, 10**6)
    writer, rows, ends = table.writer(8), envs.reset(3), {"truncated": 0, "terminated": 0}
    drawn = []
    for _ in range(60):
        action, appended = agent.act(rows)
        steps = writer.append(appended[TABLE], rows.first, rows.last, rows.mask)
        items = agent.items({TABLE: steps})[TABLE]
        writer.add_items(items.streams, items.steps, items.priorities)
        drawn += appended[TABLE]["action"][rows.last].tolist()
        ends["truncated"] += int((rows.truncated & ~rows.terminated).sum())
        ends["terminated"] += int(rows.terminated.sum())
        rows = envs.step(action)[1]
    envs.close()
    assert min(ends.values()) > 5 and set(drawn) == {0, 1, 2, 3}
    for stream, step_ in table.live():
        views, length = table.read(stream, step_)
        row, following = table.streams[stream].rows[step_ : step_ + 2]
        assert length == 1 and not row.last
        assert views["next_action"] == following.columns["action"]
        assert views["obs"] == row.columns["obs"] and views["next_obs"] == following.columns["obs"]
    # Every row but a LAST one is an item, once the row behind it is there.
    acted = sum(not row.last for one in table.streams for row in one.rows[:-1])
    assert table.items_created == acted


def test_a_state_goes_on_and_is_not_shared() -> None:
    first, second = learner_of(), learner_of()
    step(first, random_batch(64))
    second.load_state_dict(first.state_dict())
    step(first, random_batch(64, 5))
    table, draws = first.table.clone(), first.draws.clone()
    step(second, random_batch(64, 5))
    assert torch.equal(table, second.table) and torch.equal(draws, second.draws)
    assert torch.equal(table, first.table) and torch.equal(draws, first.draws)
    assert first.steps == second.steps == 2


@pytest.mark.parametrize(
    ("env_id", "sets", "cause", "remedy"),
    [
        ("CartPole-v1", [], "those of CartPole-v1 are float32[4]", "--algo dqn"),
        ("FrozenLake-v1", ["net.frame_stack=2"], "stacks no frames", "net.frame_stack"),
    ],
)
def test_what_cannot_work_is_refused(env_id: str, sets: list[str], cause: str, remedy: str) -> None:
    config = load(env_id, flags=NAMED, sets=sets)
    with pytest.raises(ConfigError) as info:
        make_algorithm(config, find_spaces(config.env))
    assert cause in info.value.cause and remedy in info.value.remedy
    assert "\n" not in info.value.cause + info.value.remedy


Model = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


def model_of(env_id: str, **kwargs: Any) -> Model:
    model: Model = gym.make(env_id, **kwargs).unwrapped.P  # type: ignore[attr-defined]
    return model


def backup(model: Model, value: np.ndarray, gamma: float) -> np.ndarray:
    """Q values [states, actions] of these values of states."""
    q = np.zeros((len(model), len(model[0])))
    for state, actions in model.items():
        for action, outcomes in actions.items():
            for probability, following, reward, terminated in outcomes:
                ahead = 0.0 if terminated else gamma * value[following]
                q[state, action] += probability * (reward + ahead)
    return q


def iterated(model: Model, gamma: float, policy: np.ndarray | None = None) -> np.ndarray:
    """Q values of a policy [states, actions], by value iteration; None: of the best one."""
    value = np.zeros(len(model))
    while True:
        q = backup(model, value, gamma)
        new = q.max(1) if policy is None else (policy * q).sum(1)
        if np.abs(new - value).max() < 1e-10:
            return q
        value = new


def greedy(q: np.ndarray) -> np.ndarray:
    return np.eye(q.shape[1])[q.argmax(1)]


@pytest.mark.parametrize("rule", ["q_learning", "sarsa"])
def test_sarsa_values_the_policy_that_is_played_and_q_learning_the_best(rule: str) -> None:
    """Steps at random through FrozenLake: the values of random play, or those of the best."""
    model = model_of("FrozenLake-v1", is_slippery=True)
    flags = {**NAMED, "algo.rule": rule, "algo.gamma": 0.9}
    config = load("FrozenLake-v1", flags=flags, sets=["algo.learning_rate_power=0.8"])
    learner = make_algorithm(config, find_spaces(config.env)).learner("cpu", 1)
    assert isinstance(learner, tabular.TabularLearner)
    rng, size, ways = np.random.default_rng(0), 4096, 3
    # A hole or the goal has one way on, the ice three that are alike.
    outcomes = np.array([[each * (ways // len(each)) for each in of.values()]
                         for of in model.values()])  # fmt: skip
    for _ in range(300):
        state, action, next_action, way = (rng.integers(n, size=size) for n in (16, 4, 4, ways))
        _, following, reward, terminated = outcomes[state, action, way].T
        views = {
            "obs": state, "action": action, "next_obs": following.astype(np.int64),
            "reward": reward[:, None], "discount": 1 - terminated[:, None],
            "next_action": next_action,
        }  # fmt: skip
        step(learner, batch_of(views, np.ones(size, np.int64)))
    policy = np.full((16, 4), 0.25) if rule == "sarsa" else None
    np.testing.assert_allclose(learner.table.numpy(), iterated(model, 0.9, policy), atol=0.02)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "rule", "steps"),
    [
        ("FrozenLake-v1", {"is_slippery": False}, "q_learning", 200),
        ("FrozenLake-v1", {"is_slippery": False}, "sarsa", 200),
        pytest.param("CliffWalking-v1", {}, "q_learning", 400, marks=pytest.mark.slow),
        pytest.param(
            "FrozenLake-v1", {"is_slippery": True}, "q_learning", 1500, marks=pytest.mark.slow
        ),
        pytest.param("Taxi-v4", {}, "q_learning", 1500, marks=pytest.mark.slow),
    ],
)
def test_the_optimum_is_reached(
    env_id: str, kwargs: dict[str, Any], rule: str, steps: int, tmp_path: Path
) -> None:
    """A whole run; its policy is worth what value iteration finds, from every start."""
    sets = {f"env.kwargs.{name}": value for name, value in kwargs.items()}
    flags = {
        "run.serial": True, "run.folder": str(tmp_path / "run"), "algo.rule": rule,
        "run.max_learner_steps": steps, "eval.period": steps,
    }  # fmt: skip
    config = load(env_id, flags=flags, sets=sets)
    folder = RunFolder.create(config)
    serial(config, folder, Stop())
    algo = make_algorithm(config, find_spaces(config.env))
    table = load_params(folder.checkpoint_path, algo.architecture)["weight"].numpy()
    model = model_of(env_id, **kwargs)
    gamma = config.algo.gamma  # type: ignore[attr-defined]
    best = iterated(model, gamma).max(1)
    own = (greedy(table) * iterated(model, gamma, greedy(table))).sum(1)
    start = gym.make(env_id, **kwargs).unwrapped.initial_state_distrib  # type: ignore[attr-defined]
    assert start @ own >= start @ best - 0.01 * abs(start @ best)
    played = evaluate_checkpoint(config, folder.checkpoint_path, 20)
    if env_id == "CliffWalking-v1":
        assert set(played.returns) == {-13.0}
    elif not kwargs.get("is_slippery", True):
        assert set(played.returns) == {1.0}


@pytest.mark.slow
def test_the_recipe_of_the_lake_reaches_its_goal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Returns are 0 or 1: few episodes would keep whichever policy was lucky."""
    monkeypatch.chdir(tmp_path)
    result = drlnet.train("FrozenLake-v1", seed=1, max_seconds=240, quiet=True)
    assert result.stopped == "goal"
    assert result.eval_episodes == 2000
    assert result.eval_return_mean >= 0.7 - 0.04  # four standard deviations of that mean
