"""R2D2's learner against loops over its equations: values, gradient, priorities, copies, state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from algos.sequences import SPACES, algorithm, batch_of, naive, played
from algos.transitions import gone_on
from oracle import OracleBatch

from drlnet.adders import tensors
from drlnet.algos import TABLE, r2d2
from drlnet.envs import EnvSpaces
from drlnet.metrics.catalog import find

MASKED = replace(SPACES, action_mask=True)


@pytest.mark.parametrize("core", ["lstm", "gru"])
def test_a_sequence_s_values_are_those_that_the_actor_saw(core: str) -> None:
    """With the actor's params, the stored state makes the values of the whole episode's state."""
    algo = algorithm(**{"algo.core": core})
    rows, items, _ = played(algo)
    batch, learner = batch_of(algo, rows, items), algo.learner("cpu", 1)
    view = tensors(batch, learner.device, SPACES)  # type: ignore[arg-type]
    start = view["previous_action"][:, 0] < 0
    assert start.any() and not start.all()
    found = learner.values(learner.online, view, start)
    for index, (stream, anchor) in enumerate(items):
        begin = max(i for i in range(anchor + 1) if rows[stream][i][1])
        end = anchor + int(batch.length[index])
        seen = [rows[stream][i][0] for i in range(begin, end + 1)]
        columns = [torch.from_numpy(np.stack([one[name] for one in seen]))[None]
                   for name in ("obs", "previous_action", "reward")]  # fmt: skip
        state = torch.zeros(1, algo.settings.state_size)
        whole, _ = learner.online(*columns, state)
        torch.testing.assert_close(
            found[index, : end - anchor + 1], whole[0, anchor - begin :], rtol=1e-4, atol=1e-5
        )


def test_burn_in_takes_no_gradient_and_first_sequences_have_none() -> None:
    algo = algorithm()
    rows, items, _ = played(algo)
    learner = algo.learner("cpu", 1)
    view = tensors(batch_of(algo, rows, items), learner.device, SPACES)  # type: ignore[arg-type]
    start = view["previous_action"][:, 0] < 0
    view["obs"].requires_grad_(True)
    learner.values(learner.online, view, start)[:, 3:].sum().backward()  # type: ignore[no-untyped-call]
    assert view["obs"].grad is not None
    before = view["obs"].grad[:, :3].abs().sum((1, 2))
    assert (before[~start] == 0).all() and (before[start] > 0).all()
    assert (view["obs"].grad[:, 3:].abs().sum((1, 2)) > 0).all()


def values_by_steps(
    net: torch.nn.Module, batch: OracleBatch, b: int, settings: r2d2.R2d2Settings
) -> list[torch.Tensor]:
    """Q values of one sequence's rows, step by step; its burn-in leaves no gradient behind."""
    views = batch.views
    state = torch.from_numpy(views["state"][b].reshape(1, -1)[:, : settings.state_size])
    if not settings.stored_state:
        state = torch.zeros_like(state)
    found = []
    for t in range(int(batch.length[b]) + 1):
        if t == settings.burn_in and views["previous_action"][b, 0] >= 0:
            state = state.detach()
        names = ("obs", "previous_action", "reward")
        q, state = net(
            *(torch.from_numpy(views[name][b : b + 1, t : t + 1]) for name in names), state
        )
        found.append(q[0, 0])
    return found


@pytest.mark.parametrize(
    ("spaces", "flags"),
    [
        (SPACES, {}),
        (SPACES, {"algo.core": "gru", "algo.n_step": 1}),
        (SPACES, {"algo.burn_in": 0}),
        (SPACES, {"algo.stored_state": False, "algo.dueling": False}),
        (MASKED, {}),
    ],
    ids=["lstm", "gru", "no-burn-in", "zero-state", "masks"],
)
def test_a_step_is_the_gradient_of_the_weighted_loss(
    spaces: EnvSpaces, flags: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    algo = algorithm(spaces, **{"algo.n_step": 2, **flags})
    settings = algo.settings
    rows, items, _ = played(algo)
    batch, learner = batch_of(algo, rows, items[:12]), algo.learner("cpu", 1)
    rng = np.random.default_rng(0)
    batch.probabilities = rng.uniform(0.01, 0.2, 12).astype(np.float32)
    learner.target.load_state_dict(algo.learner("cpu", 2).params())  # another network's values
    net = algo.q_net()
    net.load_state_dict(learner.params())
    terms, counts, known, differ = [], 0, [], 0
    weights = (12 * batch.probabilities) ** -0.6
    weights /= weights.max()
    for b in range(12):
        length = int(batch.length[b])
        q = torch.stack(values_by_steps(net, batch, b, settings))
        other = torch.stack(values_by_steps(learner.target, batch, b, settings)).detach()
        valid = torch.ones(length + 1, 4, dtype=torch.bool)
        if spaces.action_mask:
            valid = torch.from_numpy(batch.views["action_mask"][b, : length + 1])
        best = q.detach().masked_fill(~valid, -torch.inf).argmax(1)
        differ += int((best != other.masked_fill(~valid, -torch.inf).argmax(1)).sum())
        goals = naive(
            other[torch.arange(length + 1), best].numpy(), batch.views["reward"][b, 1:],
            batch.views["discount"][b, 1:], length, settings,
        )  # fmt: skip
        start = batch.views["previous_action"][b, 0] < 0
        steps = range(0 if start else settings.burn_in, length)
        taken = batch.views["previous_action"][b, 1:]
        errors = [goals[t] - q[t, int(taken[t])] for t in steps]
        counts += len(errors)
        terms += [float(weights[b]) * error.square() / 2 for error in errors]
        sizes = [abs(error.item()) for error in errors]
        known.append(0.9 * max(sizes) + 0.1 * sum(sizes) / len(sizes))
    assert differ > 10  # swapped networks would be seen
    loss = torch.stack(terms).sum() / counts
    loss.backward()  # type: ignore[no-untyped-call]
    monkeypatch.setattr(learner, "descend", lambda loss, env_steps: loss.backward())
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    assert all(find(f"client.learner.{name}") for name in learned.figures)
    torch.testing.assert_close(learned.figures["loss"], loss.detach(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(learned.priorities[TABLE], known, rtol=1e-3, atol=1e-5)
    pairs = zip(learner.online.named_parameters(), net.parameters(), strict=True)
    for (name, one), other_param in pairs:
        assert one.grad is not None and other_param.grad is not None
        torch.testing.assert_close(one.grad, other_param.grad, rtol=1e-3, atol=1e-6, msg=name)
        assert one.grad.any(), name


@pytest.mark.parametrize("spaces", [SPACES, MASKED], ids=["all", "masks"])
@pytest.mark.parametrize(
    "flags", [{}, {"algo.burn_in": 0, "algo.n_step": 3}], ids=["", "no-burn-in"]
)
def test_first_priorities_are_those_of_the_actor_s_own_params(
    spaces: EnvSpaces, flags: dict[str, Any]
) -> None:
    algo = algorithm(spaces, **flags)
    rows, items, first = played(algo)
    learned = algo.learner("cpu", 1).step({TABLE: batch_of(algo, rows, items)})  # type: ignore[dict-item]
    assert len(first) == len(items) > 50
    np.testing.assert_allclose(first, learned.priorities[TABLE], rtol=2e-3, atol=1e-4)


def test_the_target_follows_by_copies() -> None:
    algo = algorithm(**{"algo.target_period": 2})
    rows, items, _ = played(algo)
    batch, learner = batch_of(algo, rows, items[:8]), algo.learner("cpu", 1)
    before = {name: param.clone() for name, param in learner.params().items()}
    for steps in (1, 2):
        learner.step({TABLE: batch})  # type: ignore[dict-item]
        copied = before if steps == 1 else learner.params()
        for name, param in learner.target.state_dict().items():
            assert torch.equal(param, copied[name]), (steps, name)
    assert any(not torch.equal(before[name], param) for name, param in learner.params().items())


def test_a_state_goes_on() -> None:
    algo = algorithm(**{"algo.target_period": 2})
    rows, items, _ = played(algo)
    batches = [batch_of(algo, rows, items[begin : begin + 8]) for begin in (0, 8, 16)]
    targets = (one.target.state_dict().values() for one in gone_on(algo, batches[:1], batches[1:]))
    assert all(torch.equal(one, other) for one, other in zip(*targets, strict=True))
