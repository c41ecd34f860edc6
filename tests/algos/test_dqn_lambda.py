"""DQN's lambda returns against a loop over the equations, on random paths and on a real table's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from algos.transitions import SPACES, batch_of, disagree, random_batch
from oracle import OracleBatch, OracleTable
from toy import TOY

from drlnet.adders import lambda_targets, tensors
from drlnet.algos import TABLE, dqn, make_algorithm
from drlnet.config import load
from drlnet.envs import EnvSpaces, Streams, find_spaces, make_envs
from drlnet.errors import ConfigError

GAMMA, TRACE = 0.9, 0.7


def algorithm(env: str | None = None, spaces: EnvSpaces = SPACES, **settings: Any) -> dqn.Dqn:
    flags = {
        "net.hidden_sizes": (8,),
        "algo.returns": "lambda",
        "algo.gamma": GAMMA,
        "algo.trace": TRACE,
        **settings,
    }
    config = load(env, flags=flags)
    made = make_algorithm(config, find_spaces(config.env) if env else spaces)
    assert isinstance(made, dqn.Dqn)
    return made


def learner_of(made: dqn.Dqn) -> dqn.DqnLearner:
    learner = made.learner("cpu", 1)
    disagree(learner)
    return learner


def greedy_batch(learner: dqn.DqnLearner, n: int, stack: int, masked: bool) -> OracleBatch:
    """Random paths of which half of the actions are the greedy ones."""
    batch, rng, size = random_batch(256, n), np.random.default_rng(7), 256
    views = dict(batch.views)
    window = rng.normal(size=(size, n + stack - 1, 3)).astype(np.float32)
    views["next_obs"] = window
    if stack > 1:
        views["obs"] = rng.normal(size=(size, stack, 3)).astype(np.float32)
    views["path_action"] = rng.integers(4, size=(size, n)).astype(np.int32)
    views["path_action"][:, 0] = views["action"]
    if masked:
        valid = rng.random((size, n, 4)) < 0.5
        valid[:, :, 1] = True
        views["next_action_mask"] = valid
    for i in range(size):
        for k in range(1, n):
            if rng.random() < 0.5:
                _, choose = values_at(learner, views, i, k, stack)
                views["path_action"][i, k] = choose.argmax()
    return batch_of(views, batch.length)


def values_at(
    learner: dqn.DqnLearner, views: dict[str, np.ndarray], i: int, k: int, stack: int
) -> tuple[np.ndarray, np.ndarray]:
    """The target network's values at o_{t+k}, and those that choose its action."""
    seen = views["next_obs"][i, k - 1 : k - 1 + stack]
    seen = torch.from_numpy(seen if stack > 1 else seen[0])[None]
    with torch.no_grad():
        own = learner.target(seen)[0].numpy()
        choose = learner.online(seen)[0].numpy() if learner.settings.double else own
    if "next_action_mask" in views:
        choose = np.where(views["next_action_mask"][i, k - 1], choose, -np.inf)
    return own, choose


def by_loop(learner: dqn.DqnLearner, batch: OracleBatch, stack: int) -> list[float]:
    found = []
    views = dict(batch.views)
    for i, m in enumerate(batch.length):
        returns = 0.0
        for k in reversed(range(1, int(m) + 1)):
            own, choose = values_at(learner, views, i, k, stack)
            value = float(own[choose.argmax()])
            if k == m:
                returns = value
            else:
                greedy = choose[views["path_action"][i, k]] >= choose.max()
                trace = learner.settings.trace if greedy else 0.0
                returns = (1 - trace) * value + trace * returns
            reward = float(views["reward"][i, k - 1])
            returns = reward + learner.settings.gamma * float(views["discount"][i, k - 1]) * returns
        found.append(returns)
    return found


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize(("n", "stack", "masked"), [(1, 1, False), (5, 1, True), (4, 3, False)])
def test_targets_follow_the_equations(n: int, stack: int, masked: bool, double: bool) -> None:
    spaces = replace(SPACES, action_mask=masked)
    settings = {"algo.n_step": n, "algo.double": double, "net.frame_stack": stack}
    made = algorithm(spaces=spaces, **settings)
    learner = learner_of(made)
    batch = greedy_batch(learner, n, stack, masked)
    views = tensors(batch, torch.device("cpu"), spaces)  # type: ignore[arg-type]
    taken, targets = learner.errors(views)
    np.testing.assert_allclose(targets, by_loop(learner, batch, stack), rtol=1e-5, atol=1e-5)
    q = learner.online(torch.from_numpy(batch.views["obs"])).detach().numpy()
    chosen = q[np.arange(256), batch.views["action"]]
    np.testing.assert_allclose(taken.detach(), chosen, rtol=1e-5, atol=1e-5)
    assert taken.requires_grad and not targets.requires_grad
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    np.testing.assert_allclose(
        learned.priorities[TABLE], np.abs(targets.numpy() - chosen), rtol=1e-4, atol=1e-5
    )


def one(
    value: list[float], trace: list[float], reward: list[float], discount: list[float], m: int
) -> float:
    rows = (torch.tensor([row]) for row in (value, trace, reward, discount))
    return float(lambda_targets(*rows, torch.tensor([m]), 0.5))


def test_the_edges_of_an_episode() -> None:
    nine = 9.0
    # lambda = 0 bootstraps from the next observation; lambda = 1 from the last one.
    assert one([8, nine, nine], [0, 0, 0], [1, 2, 4], [1, 1, 1], 3) == 1 + 0.5 * 8
    assert one([nine, nine, 8], [1, 1, 0], [1, 2, 4], [1, 1, 1], 3) == 1 + 1 + 1 + 0.125 * 8
    # An action that was not greedy cuts behind the reward that it brought.
    assert one([nine, 8, nine], [1, 0, 1], [1, 2, 4], [1, 1, 1], 3) == 1 + 1 + 0.25 * 8
    # Terminated; truncated after two steps; a lost life, although rows go on.
    assert one([nine, nine, nine], [1, 1, 1], [1, 2, nine], [1, 0, nine], 2) == 1 + 1
    assert one([nine, 8, nine], [1, 1, 1], [1, 2, nine], [1, 1, nine], 2) == 1 + 1 + 0.25 * 8
    assert one([nine, nine, nine], [1, 1, 1], [1, 2, 4], [1, 0, 1], 3) == 1 + 1


@pytest.mark.parametrize("stack", [1, 3])
def test_items_show_what_was_played(stack: int) -> None:
    """The toy's observation is [episode, step, newest action]."""
    n = 4
    made = algorithm(
        TOY, **{"algo.n_step": n, "net.frame_stack": stack, "env.kwargs": {"longest": 9}}
    )
    settings = made.tables()[TABLE]
    envs, _ = make_envs(made.config.env, 3)
    agent = made.agent(Streams(np.arange(3), first=0, total=3, rng=np.random.default_rng(1)))
    table = OracleTable(settings.columns, settings.item, 10**6)
    writer, rows = table.writer(3), envs.reset(3)
    for _ in range(60):
        action, appended = agent.act(rows)
        steps = writer.append(appended[TABLE], rows.first, rows.last, rows.mask)
        items = agent.items({TABLE: steps})[TABLE]
        writer.add_items(items.streams, items.steps, items.priorities)
        rows = envs.step(action)[1]
    envs.close()
    live, short = list(table.live()), 0
    for stream, anchor in live:
        views, m = table.read(stream, anchor)
        own = table.streams[stream].rows[anchor : anchor + m + 1]
        assert views["next_obs"].shape == (n + stack - 1, *own[0].columns["obs"].shape)
        for k in range(1, m + 1):
            assert np.array_equal(views["next_obs"][k - 1 + stack - 1], own[k].columns["obs"])
        for k in range(m):
            assert views["path_action"][k] == own[k].columns["action"]
        assert views["action"] == views["path_action"][0]
        short += m < n
    assert len(live) > 50 and short > 3


@pytest.mark.parametrize("name", ["btr", "medqn"])
def test_others_refuse_them(name: str) -> None:
    flags = {"algo.name": name, "algo.returns": "lambda"}
    with pytest.raises(ConfigError, match="n-step returns alone") as raised:
        make_algorithm(load(flags=flags), SPACES)
    assert "--algo dqn" in raised.value.remedy
