"""V-trace's targets against the paper's sum, the loss's gradient by hand, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from algos.transitions import SPACES, gone_on
from oracle import OracleBatch, random_unrolls

from drlnet.algos import TABLE, make_algorithm, vtrace
from drlnet.config import load
from drlnet.envs import EnvSpaces, Rows, Streams
from drlnet.errors import ConfigError
from drlnet.metrics.catalog import find


def naive(
    ratio: np.ndarray, reward: np.ndarray, discount: np.ndarray, last: np.ndarray,
    value: np.ndarray, settings: vtrace.VtraceSettings,
) -> tuple[list[float], list[float]]:  # fmt: skip
    """v_0 .. v_T-1 and A_0 .. A_T-1 of one unroll, each v as the sum over what lies ahead of it."""
    length, gamma = len(reward), settings.gamma
    rho = np.minimum(settings.rho_clip, ratio)
    c = settings.trace * np.minimum(settings.c_clip, ratio)

    def goal(s: int) -> float:
        total, weight = value[s], 1.0
        for t in range(s, length):
            error = rho[t] * (reward[t] + gamma * discount[t] * value[t + 1] - value[t])
            total += weight * error
            if last[t]:
                break
            weight *= gamma * discount[t] * c[t]
        return float(total)

    goals = [goal(s) for s in range(length)]
    ahead = [value[s + 1] if last[s] or s == length - 1 else goals[s + 1] for s in range(length)]
    gains = [
        float(rho[s] * (reward[s] + gamma * discount[s] * ahead[s] - value[s]))
        for s in range(length)
    ]
    return goals, gains


@pytest.mark.parametrize("trace", [0.0, 0.9, 1.0])
def test_targets(trace: float) -> None:
    rng = np.random.default_rng(2)
    shape = (64, 17)
    settings = vtrace.VtraceSettings(gamma=0.97, trace=trace, rho_clip=1.3, c_clip=0.9)
    ratio = np.exp(rng.normal(size=shape))
    reward, value = rng.normal(size=shape), rng.normal(size=(64, 18))
    last = rng.random(shape) < 0.2
    terminated = (last & (rng.random(shape) < 0.5)) | (rng.random(shape) < 0.05)  # lost lives, too
    discount = np.where(terminated, 0.0, 1.0)
    arrays = (ratio, reward, discount, last, value)
    goals, gains = vtrace.targets(*map(torch.from_numpy, arrays), settings)
    for index in range(shape[0]):
        known = naive(*(one[index] for one in arrays), settings)
        np.testing.assert_allclose(goals[index], known[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(gains[index], known[1], rtol=1e-5, atol=1e-5)


def algorithm(spaces: EnvSpaces = SPACES, **flags: Any) -> vtrace.Vtrace:
    settings = {"algo.unroll": 6, "replay.batch_size": 4, "net.hidden_sizes": (8,), **flags}
    made = make_algorithm(load(flags={"algo.name": "vtrace", **settings}), spaces)
    assert isinstance(made, vtrace.Vtrace)
    return made


def random_batch(algo: vtrace.Vtrace, seed: int = 0) -> OracleBatch:
    batch = random_unrolls(algo.tables()[TABLE].item, num_actions=4, obs_shape=(3,), seed=seed)
    batch.views["log_probability"] = -np.abs(batch.views["log_probability"])
    return batch


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("stack", [1, 3])
def test_a_step_follows_the_gradient_of_the_loss(stack: int, corrected: bool) -> None:
    algo = algorithm(
        **{
            "net.frame_stack": stack, "algo.corrected": corrected, "algo.reward_clip": 0.5,
            "algo.max_grad_norm": None, "algo.optimizer": "rmsprop",
        }
    )  # fmt: skip
    learner, batch = algo.learner("cpu", 1), random_batch(algo)
    views, settings = batch.views, learner.settings
    net = algo.net()
    net.load_state_dict(learner.online.state_dict())
    learner.steps, views["made_by"] = 9, np.arange(24, dtype=np.int32).reshape(4, 6) % 9
    last = views["last"]
    terms, ratios, lags = [], [], []
    for b in range(4):
        seen = []
        for t in range(7):
            place, frames = t + stack - 1, []
            began = max([i + 1 for i in range(place) if last[b, i]], default=0)
            for back in reversed(range(stack)):
                frames.append(views["obs"][b, max(place - back, began)])
            seen.append(np.stack(frames) if stack > 1 else frames[0])
        logits, value = net(torch.from_numpy(np.stack(seen)))
        log_pi = logits[:-1].log_softmax(1)
        taken = log_pi[torch.arange(6), torch.from_numpy(views["action"][b]).long()]
        ratio = np.exp(taken.detach().numpy() - views["log_probability"][b])
        goals, gains = naive(
            ratio if corrected else np.ones_like(ratio), views["reward"][b].clip(-0.5, 0.5),
            views["discount"][b], last[b, stack:], value.detach().numpy(), settings,
        )  # fmt: skip
        for t in np.flatnonzero(~last[b, stack - 1 : -1]):
            entropy = -(log_pi[t].exp() * log_pi[t]).sum()
            error = 0.5 * settings.value_weight * (goals[t] - value[t]).square()
            terms.append(error - gains[t] * taken[t] - settings.entropy * entropy)
            ratios.append(ratio[t])
            lags.append(9 - views["made_by"][b, t])
    loss = torch.stack(terms).mean()
    loss.backward()
    before = [one.detach().clone() for one in learner.online.parameters()]
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    assert learned.priorities == {} and learner.steps == 10
    torch.testing.assert_close(learned.figures["loss"], loss.detach(), rtol=1e-4, atol=1e-5)
    figures = {name: float(value) for name, value in learned.figures.items()}
    # What is measured is the true ratio, whether it corrects or not.
    assert figures["ratio_mean"] == pytest.approx(np.mean(ratios), rel=1e-4)
    assert figures["ratio_clipped_share"] == pytest.approx(np.mean(np.array(ratios) > 1), abs=1e-6)
    assert 0 < figures["ratio_clipped_share"] < 1
    assert figures["batch_policy_lag"] == pytest.approx(np.mean(lags), rel=1e-6)
    assert all(find(f"client.learner.{name}") for name in figures)
    moved = zip(net.parameters(), before, learner.online.parameters(), strict=True)
    for known, old, new in moved:
        assert known.grad is not None
        # rmsprop's first step: the gradient over its size, but for what is nearly 0.
        large = known.grad.abs() > 1e-4
        assert torch.equal(torch.sign(old - new)[large], torch.sign(known.grad)[large])


def agent_of(algo: vtrace.Vtrace) -> vtrace.VtraceAgent:
    rng = np.random.default_rng(1)
    return algo.agent(Streams(np.arange(64), first=0, total=64, rng=rng, env_steps=0))


def first_rows(action_mask: np.ndarray | None = None) -> Rows:
    off, on = np.zeros(64, bool), np.ones(64, bool)
    return Rows(
        obs=np.zeros((64, 3), np.float32), reward=np.zeros(64, np.float32), terminated=off,
        truncated=off, first=on, last=off, action_mask=action_mask,
    )  # fmt: skip


def test_rows_tell_which_params_they_were_played_with() -> None:
    algo = algorithm()
    learner, agent = algo.learner("cpu", 1), agent_of(algo)
    for steps in (0, 7):
        learner.steps = steps
        agent.load(learner.params())
        _, columns = agent.act(first_rows())
        assert columns[TABLE]["made_by"].tolist() == [steps] * 64
    assert "made_by" in learner.params()  # loading takes nothing from what it is given


def test_actions_that_are_not_valid_are_neither_drawn_nor_learned() -> None:
    valid = np.array([True, False, True, False])
    algo = algorithm(spaces=replace(SPACES, action_mask=True))
    action, columns = agent_of(algo).act(first_rows(np.tile(valid, (64, 1))))
    assert set(action) == {0, 2}
    np.testing.assert_allclose(columns[TABLE]["log_probability"], np.log(0.5), atol=0.05)
    learner, batch = algo.learner("cpu", 1), random_batch(algo)
    batch.views["action_mask"] = np.broadcast_to(valid, (4, 6, 4)).copy()
    batch.views["action"] = 2 * (batch.views["action"] // 2)
    before = learner.online.head.weight.detach().clone()
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    changed = (learner.online.head.weight != before).any(1)
    assert changed.tolist() == [True, False, True, False, True]  # the last one is the value's
    assert np.isfinite(float(learned.figures["entropy"]))


def test_a_state_goes_on() -> None:
    algo = algorithm()
    gone_on(algo, [random_batch(algo)], [random_batch(algo, seed=5)])


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        ({"replay.max_times_sampled": 0}, "'vtrace' draws each unroll once"),
        ({"algo.rho_clip": 0}, "algo.rho_clip"),
        ({"algo.trace": 1.5}, "algo.trace"),
        ({"algo.rho_clip": 0.9}, "algo.c_clip = 1 exceeds algo.rho_clip = 0.9"),
        ({"algo.unroll": 1}, "algo.unroll"),  # a batch of LAST rows would have no step
    ],
)
def test_what_cannot_work_is_refused(flags: dict[str, Any], cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        algorithm(**flags)
