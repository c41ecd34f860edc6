"""MeDQN's loss and bounds against loops over the equations, and where it goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from algos.transitions import SPACES, disagree, random_batch, targets_by_loop
from oracle import OracleBatch

from drlnet.algos import TABLE, make_algorithm, medqn
from drlnet.client import importance_weights
from drlnet.config import load
from drlnet.envs import EnvSpaces
from drlnet.metrics.catalog import find

IMAGES = EnvSpaces(obs_shape=(2, 3), obs_dtype="uint8", num_actions=4, first_action=0)


def learner_of(spaces: EnvSpaces = SPACES, seed: int = 1, **settings: Any) -> medqn.MedqnLearner:
    settings = {"n_step": 3, "gamma": 0.9, "updates": 1, **settings}
    flags = {
        "algo.name": "medqn",
        "net.hidden_sizes": (8,),
        **{f"algo.{name}": value for name, value in settings.items()},
    }
    made = make_algorithm(load(flags=flags), spaces).learner("cpu", seed)
    assert isinstance(made, medqn.MedqnLearner)
    return made


def step(learner: medqn.MedqnLearner, batch: OracleBatch) -> dict[str, float]:
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    assert all(find(f"client.learner.{name}") for name in learned.figures)
    return {name: float(value) for name, value in learned.figures.items()}


def consolidation_by_loop(learner: medqn.MedqnLearner, states: np.ndarray) -> float:
    online, target = (
        net(torch.from_numpy(states)).detach().numpy().astype(np.float64)
        for net in (learner.online, learner.target)
    )
    total = 0.0
    for row in range(len(states)):
        for action in range(online.shape[1]):
            total += (online[row, action] - target[row, action]) ** 2
    return total / online.size


def td_by_loop(learner: medqn.MedqnLearner, batch: OracleBatch) -> float:
    q = learner.online(torch.from_numpy(batch.views["obs"])).detach().numpy()
    weights = importance_weights(batch, learner.importance_exponent)  # type: ignore[arg-type]
    total = 0.0
    for row, goal in enumerate(targets_by_loop(learner, batch)):
        error = abs(goal - float(q[row, batch.views["action"][row]]))
        total += float(weights[row]) * (error - 0.5 if error > 1 else 0.5 * error**2)
    return total / len(weights)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("spent", [0.0, 0.25, 1.0])
def test_the_loss_is_the_equation(double: bool, spent: float) -> None:
    learner = learner_of(states="real", double=double, consolidation_end=4.0)
    disagree(learner)
    batch = random_batch(64, 3)
    batch.spent = spent
    kept = consolidation_by_loop(learner, batch.views["next_obs"])
    expected = td_by_loop(learner, batch)
    weight = 0.01 + spent * (4.0 - 0.01)
    figures = step(learner, batch)
    assert figures["consolidation"] == pytest.approx(kept, rel=1e-5)
    assert figures["consolidation_weight"] == pytest.approx(weight)
    assert figures["loss"] == pytest.approx(expected + weight * kept, rel=1e-5)
    # Of the states that the errors move it would be another.
    elsewhere = consolidation_by_loop(learner, batch.views["obs"])
    assert abs(elsewhere - kept) > 1e-3 * kept


def test_uniform_states_lie_within_the_bounds_of_all_that_was_seen() -> None:
    learner = learner_of()
    seen = []
    for seed, reach in enumerate([2, 1, 4, 1]):
        batch = random_batch(64, 3, seed)
        batch.views["obs"] *= reach
        seen += [batch.views["obs"], batch.views["next_obs"]]
        torch.manual_seed(seed)
        step(learner, batch)
        rows = np.concatenate(seen)
        np.testing.assert_array_equal(learner.low.numpy(), rows.min(0))
        np.testing.assert_array_equal(learner.high.numpy(), rows.max(0))
    view = {name: torch.from_numpy(batch.views[name]) for name in ("obs", "next_obs")}
    drawn = torch.cat([learner.states(view) for _ in range(300)]).numpy()
    low, high = rows.min(0), rows.max(0)
    assert (drawn >= low).all() and (drawn <= high).all() and drawn.dtype == np.float32
    share = (drawn - low) / (high - low)
    for column in share.T:  # uniform, each number by itself
        counts, _ = np.histogram(column, bins=8, range=(0, 1))
        assert abs(counts / len(column) - 1 / 8).max() < 0.01
    assert np.abs(np.corrcoef(share.T) - np.eye(3)).max() < 0.03


def test_bytes_are_drawn_as_whole_numbers() -> None:
    learner = learner_of(IMAGES)
    rng = np.random.default_rng(0)
    obs = torch.from_numpy(rng.integers(200, 204, (256, 2, 3), dtype=np.uint8))
    obs[:, 0, 0], obs[:, 1, 1] = 255, 0  # numbers that never change
    drawn = learner.states({"obs": obs, "next_obs": obs})
    assert drawn.dtype == torch.uint8 and drawn.shape == (256, 2, 3)
    assert (drawn[:, 0, 0] == 255).all() and (drawn[:, 1, 1] == 0).all()
    counts = torch.bincount(drawn[:, 0, 1].long(), minlength=256)
    assert counts[200:204].min() > 40 and counts.sum() == counts[200:204].sum()


def test_a_share_just_below_one_is_the_largest_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learner_of(IMAGES)
    monkeypatch.setattr(medqn.torch, "rand", lambda shape: torch.full(shape, 1 - 2**-24))
    obs = torch.full((4, 2, 3), 255, dtype=torch.uint8)
    obs[0] = 200  # 200 + 56 x the share is rounded to 256
    assert (learner.states({"obs": obs, "next_obs": obs}) == 255).all()


def test_each_update_is_a_gradient_step_of_one_learner_step() -> None:
    batch = random_batch(64, 3)
    once, thrice = (learner_of(states="real", updates=updates) for updates in (1, 3))
    for _ in range(3):
        step(once, batch)
    step(thrice, batch)
    assert (once.steps, thrice.steps) == (3, 1)
    # Equal but for beta, which counts learner steps: the batch's probabilities are alike.
    for name, param in once.params().items():
        torch.testing.assert_close(thrice.params()[name], param)


def test_consolidation_holds_values_where_the_errors_do_not_reach() -> None:
    """The states of the batch's errors are learned; what was known elsewhere stays nearer."""
    moved = {}
    for weight in (0.0, 4.0):
        learner = learner_of(
            consolidation_start=weight, consolidation_end=weight, target_period=10**6
        )
        wide = random_batch(256, 3, seed=9)
        step(learner, wide)  # bounds
        near = random_batch(64, 3)
        near.views["obs"] *= 0.1
        for _ in range(200):
            step(learner, near)
        states = torch.from_numpy(wide.views["obs"])
        gone = learner.online(states).detach() - learner.target(states)
        moved[weight] = float(gone.square().mean())
    assert moved[4.0] < 0.5 * moved[0.0]


@pytest.mark.parametrize("states", ["uniform", "real"])
def test_a_state_dict_goes_on_where_it_was(states: str) -> None:
    first, second = (learner_of(seed=seed, states=states, updates=2) for seed in (1, 2))
    wide = random_batch(32, 3, seed=4)
    wide.views["obs"] *= 9
    step(first, wide)
    second.load_state_dict(first.state_dict())
    losses = []
    for learner in (first, second):
        torch.manual_seed(7)  # a run's state has the generator's, too
        losses.append([step(learner, random_batch(32, 3, seed))["loss"] for seed in range(5)])
    assert losses[0] == losses[1] and second.steps == 6
    assert torch.equal(first.low, second.low) and torch.equal(first.high, second.high)


def test_the_weight_goes_by_steps_or_by_the_budget_whichever_is_further() -> None:
    learner = learner_of(consolidation_env_steps=1000, consolidation_end=2.01)
    found = [learner.weight(steps, spent) for steps, spent in [(0, 0.0), (500, 0.1), (500, 0.75)]]
    assert [*found, learner.weight(5000, 0.1)] == pytest.approx([0.01, 1.01, 1.51, 2.01])


def test_a_tenth_of_the_replay() -> None:
    for env_id in ("Acrobot-v1", "MinAtar/Breakout-v1"):
        dqn, own = (load(env_id, flags={"algo.name": name}) for name in ("dqn", "medqn"))
        assert own.replay.capacity * 10 == dqn.replay.capacity
        assert (own.net, own.actor, own.env, own.run) == (dqn.net, dqn.actor, dqn.env, dqn.run)
