"""DQN's targets against a loop over the equation, and the edges of an episode by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from algos.transitions import SPACES, disagree, random_batch, targets_by_loop
from oracle import OracleBatch
from torch.nn import functional

from drlnet.adders import n_step_targets, tensors
from drlnet.algos import TABLE, dqn, make_algorithm
from drlnet.client import importance_weights
from drlnet.config import load
from drlnet.envs import EnvSpaces


def learner_of(seed: int = 1, **settings: Any) -> dqn.DqnLearner:
    settings = {"n_step": 3, "gamma": 0.9, "target_period": 5, **settings}
    flags = {
        "net.hidden_sizes": (8,),
        **{f"algo.{name}": value for name, value in settings.items()},
    }
    made = make_algorithm(load(flags=flags), SPACES).learner("cpu", seed)
    assert isinstance(made, dqn.DqnLearner)
    return made


def step(learner: dqn.DqnLearner, batch: OracleBatch) -> tuple[float, np.ndarray]:
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    return float(learned.figures["loss"]), learned.priorities[TABLE]


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("n", [1, 3, 10])
def test_loss_and_priorities_follow_the_equation(n: int, dueling: bool, double: bool) -> None:
    learner = learner_of(n_step=n, dueling=dueling, double=double)
    disagree(learner)
    batch = random_batch(64, n)
    batch.probabilities = np.random.default_rng(1).random(64).astype(np.float32)
    weights = importance_weights(batch, learner.importance_exponent)  # type: ignore[arg-type]
    targets = torch.tensor(targets_by_loop(learner, batch))
    q = learner.online(torch.from_numpy(batch.views["obs"])).detach()
    taken = q[torch.arange(64), torch.from_numpy(batch.views["action"]).long()]
    huber = functional.huber_loss(taken, targets, reduction="none")
    expected = float((torch.from_numpy(weights) * huber).mean())
    loss, priorities = step(learner, batch)
    assert loss == pytest.approx(expected, rel=1e-4)
    np.testing.assert_allclose(priorities, (targets - taken).abs(), rtol=1e-3, atol=1e-5)


def one(reward: list[float], discount: list[float], length: int) -> tuple[float, float]:
    returns, factor = n_step_targets(
        torch.tensor([reward]), torch.tensor([discount]), torch.tensor([length]), 0.5
    )
    return float(returns), float(factor)


def test_in_mid_episode() -> None:
    assert one([1, 2, 4], [1, 1, 1], 3) == (1 + 1 + 1, 0.125)


def test_termination_bootstraps_nothing() -> None:
    assert one([1, 2, 0], [1, 0, 0], 2) == (2, 0)


def test_truncation_bootstraps_from_the_final_observation() -> None:
    assert one([1, 2, 0], [1, 1, 0], 2) == (2, 0.25)


def test_lost_life_cuts_although_rows_go_on() -> None:
    assert one([1, 2, 4], [1, 0, 1], 3) == (2, 0)


def test_what_lies_behind_the_end_does_not_matter() -> None:
    assert one([1, 9, 9], [1, 9, 9], 1) == (1, 0.5)


def test_target_follows_at_its_period() -> None:
    learner, batch = learner_of(), random_batch(32, 3)

    def apart() -> bool:
        pairs = zip(learner.online.parameters(), learner.target.parameters(), strict=True)
        return any(not torch.equal(a, b) for a, b in pairs)

    states = []
    for _ in range(10):
        step(learner, batch)
        states.append(apart())
    assert states == [True] * 4 + [False] + [True] * 4 + [False]


def test_learning_reduces_the_error() -> None:
    learner = learner_of(target_period=1000, learning_rate=1e-2)
    losses = [step(learner, random_batch(32, 3))[0] for _ in range(300)]
    assert losses[-1] < losses[0] / 10


def test_same_seed_same_params() -> None:
    nets = [learner_of(seed).online for seed in (1, 1, 2)]
    heads = [net.state_dict()["head.weight"] for net in nets]
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])


def test_a_state_dict_goes_on_where_it_was() -> None:
    learners = [learner_of(seed) for seed in (1, 2)]
    for _ in range(7):
        step(learners[0], random_batch(32, 3))
    learners[1].load_state_dict(learners[0].state_dict())
    losses = [[step(one, random_batch(32, 3))[0] for _ in range(7)] for one in learners]
    assert losses[0] == losses[1] and learners[1].steps == 14


def test_importance_exponent_is_annealed() -> None:
    learner, batch = learner_of(importance_anneal_steps=4), random_batch(8, 3)
    exponents = []
    for _ in range(6):
        exponents.append(learner.importance_exponent)
        step(learner, batch)
    assert exponents == pytest.approx([0.4, 0.55, 0.7, 0.85, 1.0, 1.0])


class OwnNet(torch.nn.Linear):
    def __init__(self, settings: object, obs_shape: tuple[int, ...]):
        super().__init__(obs_shape[0], 8)
        self.features = 8


@pytest.mark.parametrize(("net", "expected"), [("mlp", True), ("algos.test_dqn:OwnNet", False)])
def test_an_own_network_is_not_made_a_graph(
    net: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = object()
    monkeypatch.setattr("drlnet.nets.device.usable_device", torch.device)
    monkeypatch.setattr("drlnet.nets.captured.Captured", lambda *_: graph)
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, _: self)  # no GPU is needed
    algorithm = make_algorithm(load(flags={"net.name": net}), SPACES)
    learner: Any = algorithm.learner("cuda", 1)
    assert (learner._gradients is graph) == expected


def test_architecture_names_what_must_agree() -> None:
    def architecture(*sets: str, obs: int = 4, actions: int = 2) -> str:
        spaces = EnvSpaces((obs,), "float32", actions, 0)
        return make_algorithm(load(sets=sets), spaces).architecture

    named = [
        architecture("net.hidden_sizes=[64, 64]"),
        architecture("net.hidden_sizes=[64, 64]", "algo.dueling=false"),
        architecture("net.hidden_sizes=[64]"),
        architecture("net.hidden_sizes=[64, 64]", obs=6),
        architecture("net.hidden_sizes=[64, 64]", actions=3),
    ]
    assert len(set(named)) == len(named)
    assert named[0] == "dqn mlp obs=4 actions=2 hidden_sizes=64-64 norm=none dueling=true"


def test_targets_choose_among_the_valid_actions() -> None:
    """Against the loop, on networks whose best actions are mostly not valid."""
    spaces = replace(SPACES, action_mask=True)
    for double in (False, True):
        flags = {"algo.n_step": 3, "algo.gamma": 0.9, "algo.double": double}
        made = make_algorithm(load(flags=flags), spaces).learner("cpu", 1)
        assert isinstance(made, dqn.DqnLearner)
        disagree(made)
        batch, rng = random_batch(64, 3), np.random.default_rng(3)
        valid = rng.random((64, 4)) < 0.4
        valid[np.arange(64), rng.integers(4, size=64)] = True
        following = torch.from_numpy(batch.views["next_obs"])
        q = {net: getattr(made, net)(following).detach().numpy() for net in ("online", "target")}
        chosen = np.where(valid, q["online" if double else "target"], -np.inf).argmax(1)
        assert (chosen != q["online" if double else "target"].argmax(1)).sum() > 10
        returns, factor = n_step_targets(
            *(torch.from_numpy(batch.views[name]) for name in ("reward", "discount")),
            torch.from_numpy(batch.length.astype(np.int64)), 0.9,
        )  # fmt: skip
        expected = returns.numpy() + factor.numpy() * q["target"][np.arange(64), chosen]
        batch.views["next_action_mask"] = valid
        _, targets = made.errors(tensors(batch, torch.device("cpu"), spaces))  # type: ignore[arg-type]
        np.testing.assert_allclose(targets.numpy(), expected, rtol=1e-4, atol=1e-5)
