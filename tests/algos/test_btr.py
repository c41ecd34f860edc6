"""BTR's targets and losses against a loop over its equations, its switches, and how it explores."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from algos.sequences import episodes, played
from algos.transitions import SPACES, gone_on, random_batch
from oracle import OracleBatch

from drlnet.adders import tensors
from drlnet.algos import TABLE, btr, make_algorithm
from drlnet.config import load
from drlnet.envs import EnvSpaces, Rows, Streams
from drlnet.errors import ConfigError

MASKED = replace(SPACES, action_mask=True)
OFF = {"munchausen": False, "quantiles": 0, "noisy": False, "head_units": 0}


def algorithm(spaces: EnvSpaces = SPACES, **settings: Any) -> btr.Btr:
    settings = {"gamma": 0.9, "quantiles": 4, "head_units": 8, "target_period": 3, **settings}
    flags = {f"algo.{name}": value for name, value in settings.items()}
    flags |= {"algo.name": "btr", "net.hidden_sizes": (8,)}
    made = make_algorithm(load(flags=flags), spaces)
    assert isinstance(made, btr.Btr)
    return made


def learner_of(algo: btr.Btr, seed: int = 1) -> btr.BtrLearner:
    """One whose target network differs from the online one."""
    learner = algo.learner("cpu", seed)
    learner.target.load_state_dict(algo.learner("cpu", seed + 1).params())
    return learner


def batch_for(algo: btr.Btr, seed: int = 0) -> OracleBatch:
    batch = random_batch(64, algo.settings.n_step, seed)
    batch.probabilities = np.random.default_rng(1).uniform(0.1, 1, 64).astype(np.float32)
    if algo.spaces.action_mask:
        rng = np.random.default_rng(seed + 2)
        for name in ("action_mask", "next_action_mask"):
            batch.views[name] = rng.random((64, 4)) < 0.5
        batch.views["next_action_mask"][np.arange(64), rng.integers(4, size=64)] = True
        batch.views["action_mask"][np.arange(64), batch.views["action"]] = True
    return batch


class Passes:
    """What each pass of a learner's networks saw and gave, in their order."""

    def __init__(self, learner: btr.BtrLearner, monkeypatch: pytest.MonkeyPatch):
        self.nets: list[torch.nn.Module] = []
        self.obs: list[np.ndarray] = []
        self.z: list[np.ndarray] = []
        self.tau: list[np.ndarray | None] = []
        real = learner.distribution

        def distribution(net: torch.nn.Module, obs: torch.Tensor) -> Any:
            z, tau = real(net, obs)
            self.nets.append(net)
            self.obs.append(obs.numpy())
            self.z.append(z.detach().double().numpy())
            self.tau.append(None if tau is None else tau.double().numpy())
            return z, tau

        monkeypatch.setattr(learner, "distribution", distribution)


def huber(x: float) -> float:
    return x * x / 2 if abs(x) <= 1 else abs(x) - 0.5


def log_policy(q: np.ndarray, valid: np.ndarray, settings: btr.BtrSettings) -> list[float]:
    """T log pi of each action; -inf where it is not valid."""
    best = max(value for value, may in zip(q, valid, strict=True) if may)
    scaled = [(value - best) / settings.munchausen_temperature for value in q]
    total = sum(math.exp(one) for one, may in zip(scaled, valid, strict=True) if may)
    return [
        settings.munchausen_temperature * (one - math.log(total)) if may else -math.inf
        for one, may in zip(scaled, valid, strict=True)
    ]


def naive(
    algo: btr.Btr, batch: OracleBatch, passes: Passes, wrong: str = ""
) -> tuple[list[float], list[float], list[float]]:
    """Losses, means of Z and means of y by the module's equations. wrong: what to get wrong."""
    settings, views, size = algo.settings, batch.views, len(batch.length)
    online, *choosing, target = passes.z
    losses, means, goals = [], [], []
    for b in range(size):
        valid_now, valid = np.ones(4, bool), np.ones(4, bool)
        if algo.spaces.action_mask:
            valid_now, valid = views["action_mask"][b], views["next_action_mask"][b]
        valid_now = np.ones(4, bool) if wrong == "mask now" else valid_now
        valid = np.ones(4, bool) if wrong == "mask ahead" else valid
        action, m = int(views["action"][b]), int(batch.length[b])
        returns, factor = 0.0, 1.0
        for k in range(settings.n_step if wrong == "tail" else m):
            returns += factor * views["reward"][b, k]
            factor *= settings.gamma * views["discount"][b, k]
        ahead = target[size + b] if settings.munchausen else target[b]
        q = ahead.mean(0)
        if settings.munchausen:
            now = online[b] if wrong == "online policy" else target[b]
            log_pi = log_policy(now.mean(0), valid_now, settings)[action]
            least = -math.inf if wrong == "no clipping" else settings.munchausen_clip
            part = settings.munchausen_scale * max(least, log_pi)
            returns += part * (factor > 0) if wrong == "no bonus at the end" else part
            logs = log_policy(q, valid, settings)
            pi = [math.exp(one / settings.munchausen_temperature) for one in logs]
            entropy = 0.0 if wrong == "no entropy" else 1.0
            following = [
                sum(p * (row[a] - entropy * logs[a]) for a, p in enumerate(pi) if valid[a])
                for row in ahead
            ]
        else:
            by = choosing[0][b].mean(0) if settings.double and wrong != "single" else q
            following = ahead[:, int(np.where(valid, by, -np.inf).argmax())].tolist()
        y = [returns + factor * one for one in following]
        taken, loss = online[b][:, action], 0.0
        for i, z in enumerate(taken):
            for goal in y:
                part = huber(goal - z) / len(y)
                tau = passes.tau[0]
                if tau is not None:
                    below = float(goal < z) if wrong != "tau" else float(goal > z)
                    part *= abs(tau[b, i] - below)
                loss += part
        losses.append(loss / len(taken) if wrong == "mean over i" else loss)
        means.append(float(taken.mean()))
        goals.append(float(np.mean(y)))
    return losses, means, goals


SWITCHES = [
    {"munchausen": munchausen, "double": double, "quantiles": quantiles, "noisy": noisy}
    for munchausen, double, quantiles, noisy in product(
        (False, True), (False, True), (0, 4), (False, True)
    )
    if not (munchausen and double)
]


@pytest.mark.parametrize("spaces", [SPACES, MASKED], ids=["all", "masks"])
@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_losses_and_targets_follow_the_equations(
    spaces: EnvSpaces, switches: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    algo = algorithm(spaces, **switches)
    learner, batch = learner_of(algo), batch_for(algo)
    passes = Passes(learner, monkeypatch)
    found = learner.losses(tensors(batch, learner.device))  # type: ignore[arg-type]
    choosing = [learner.online] * switches["double"]
    assert passes.nets == [learner.online, *choosing, learner.target]
    now, ahead = batch.views["obs"], batch.views["next_obs"]
    np.testing.assert_array_equal(passes.obs[0], now)
    for seen in passes.obs[1:-1]:
        np.testing.assert_array_equal(seen, ahead)
    both = np.concatenate([now, ahead])
    np.testing.assert_array_equal(passes.obs[-1], both if switches["munchausen"] else ahead)
    for mine, known in zip(found, naive(algo, batch, passes), strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), known, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("wrong", "settings"),
    [
        *((name, {}) for name in ("tail", "mask now", "mask ahead", "online policy")),
        *((name, {}) for name in ("no clipping", "no bonus at the end", "no entropy")),
        *((name, {}) for name in ("tau", "mean over i")),
        ("single", {"munchausen": False, "double": True}),
        ("mask ahead", {"munchausen": False}),
    ],
)
def test_wrong_variants_would_be_seen(
    wrong: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    algo = algorithm(MASKED, munchausen_clip=-0.1, **settings)
    learner, batch = learner_of(algo), batch_for(algo)
    batch.views["reward"] += 1.0  # behind a tail as well
    batch.views["discount"][:] = np.where(np.arange(64)[:, None] % 2, 1.0, 0.0)
    passes = Passes(learner, monkeypatch)
    found = learner.losses(tensors(batch, learner.device))[0].detach().numpy()  # type: ignore[arg-type]
    np.testing.assert_allclose(found, naive(algo, batch, passes)[0], rtol=1e-5, atol=1e-5)
    assert np.abs(found - naive(algo, batch, passes, wrong)[0]).max() > 1e-3


def test_a_step_weighs_losses_and_sends_the_errors_of_means(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    algo = algorithm()
    learner, batch = learner_of(algo), batch_for(algo)
    passes = Passes(learner, monkeypatch)
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    losses, means, goals = (np.array(one) for one in naive(algo, batch, passes))
    weights = (64 * batch.probabilities.astype(np.float64)) ** -0.45
    weights /= weights.max()
    assert float(learned.figures["loss"]) == pytest.approx((weights * losses).mean(), rel=1e-5)
    np.testing.assert_allclose(learned.priorities[TABLE], abs(goals - means), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("double", [False, True])
def test_without_its_switches_it_learns_as_dqn(double: bool) -> None:
    common = {"gamma": 0.9, "double": double, "reward_clip": 0.5, "target_period": 3}
    shared = {"algo.importance_exponent_start": 0.4, "algo.adam_epsilon": 1e-8}
    flags = {f"algo.{name}": value for name, value in common.items()} | shared
    plain = make_algorithm(load(flags={**flags, "net.hidden_sizes": (8,)}), SPACES)
    mine = algorithm(
        learning_rate=5e-4, importance_exponent_start=0.4, importance_exponent_end=1.0,
        adam_epsilon=1e-8, **common, **OFF,
    )  # fmt: skip
    learners = plain.learner("cpu", 1), mine.learner("cpu", 1)
    for step in range(7):
        learned = [one.step({TABLE: random_batch(32, 3, step)}) for one in learners]  # type: ignore[dict-item]
        torch.testing.assert_close(learned[0].figures, learned[1].figures)
        np.testing.assert_allclose(*(one.priorities[TABLE] for one in learned), rtol=1e-5)
    torch.testing.assert_close(dict(learners[0].params()), dict(learners[1].params()))


@pytest.mark.parametrize("munchausen", [False, True])
@pytest.mark.parametrize("spaces", [SPACES, MASKED], ids=["all", "masks"])
def test_first_priorities_are_the_learner_s_of_the_actor_s_params(
    spaces: EnvSpaces, munchausen: bool
) -> None:
    algo = algorithm(spaces, quantiles=0, noisy=False, munchausen=munchausen)
    rows, items, first = played(algo)  # type: ignore[arg-type]
    views: dict[str, list[np.ndarray]] = {}
    lengths = []
    for stream, anchor in items:
        own, n = rows[stream], algo.settings.n_step
        end = next(i for i in range(anchor + 1, anchor + n + 1) if own[i][2] or i == anchor + n)
        lengths.append(end - anchor)
        window = [own[i][0] for i in range(anchor + 1, end + 1)]
        of_rows = {"obs": own[anchor][0]["obs"], "action": own[anchor][0]["action"]}
        of_rows["next_obs"] = window[-1]["obs"]
        if spaces.action_mask:
            of_rows["action_mask"] = own[anchor][0]["action_mask"]
            of_rows["next_action_mask"] = window[-1]["action_mask"]
        for name in ("reward", "discount"):
            seen = [one[name] for one in window] + [np.float32(0)] * (n - len(window))
            of_rows[name] = np.array(seen)
        for name, one in of_rows.items():
            views.setdefault(name, []).append(one)
    size = len(items)
    assert size > 200 and min(lengths) == 1 and max(lengths) == 3
    batch = replace(
        random_batch(size, 3),
        views={name: np.stack(view) for name, view in views.items()},
        length=np.array(lengths, np.uint32),
    )
    learned = algo.learner("cpu", 1).step({TABLE: batch})  # type: ignore[dict-item]
    np.testing.assert_allclose(first, learned.priorities[TABLE], rtol=1e-4, atol=1e-5)


def agent_of(algo: btr.Btr, seed: int = 1) -> btr.BtrAgent:
    agent = algo.agent(Streams(np.arange(3), 0, 3, np.random.default_rng(seed)))
    agent.load(algo.learner("cpu", 1).params())
    return agent


def some_rows() -> Rows:
    return next(episodes(3, 1))


def test_actors_draw_noise_of_their_own_at_each_step_and_greedy_play_draws_none() -> None:
    algo = algorithm()
    params = algo.learner("cpu", 1).params()
    agents = [agent_of(algo, seed) for seed in (1, 1, 2)]
    first = [agent.values(some_rows()) for agent in agents]
    assert np.array_equal(first[0], first[1]) and not np.array_equal(first[0], first[2])
    assert not np.array_equal(agents[0].values(some_rows()), first[0])
    players = [algo.greedy(3) for _ in range(2)]
    for player in players:
        player.load(params)
    agents[0].load(params)  # the params of a network under noise
    greedy = [player.values(some_rows()) for player in [*players, players[0]]]
    assert all(np.array_equal(one, greedy[0]) for one in greedy)
    many = np.mean([agents[0].values(some_rows()) for _ in range(4000)], 0)
    assert np.abs(many - greedy[0]).max() < 0.3 * np.abs(first[0] - greedy[0]).max()


def test_both_networks_of_the_learner_draw_noise_at_each_step() -> None:
    algo = algorithm()
    learner, batch = learner_of(algo), batch_for(algo)
    seen = []
    for _ in range(2):
        learner.step({TABLE: batch})  # type: ignore[dict-item]
        nets = learner.online, learner.target
        seen += [net.head[0][0].noise_in.clone() for net in nets]  # type: ignore[index, union-attr]
    assert len({tuple(one.tolist()) for one in seen}) == 4
    assert not any("noise" in name for name in learner.params())


def test_a_state_dict_goes_on_where_it_was() -> None:
    algo = algorithm()
    batches = [batch_for(algo, seed) for seed in range(8)]
    gone_on(algo, batches[:4], batches[4:])


def test_learning_reduces_the_error() -> None:
    algo = algorithm(noisy=False, target_period=1000, learning_rate=1e-2, head_units=32)
    learner = algo.learner("cpu", 1)
    batch = {TABLE: batch_for(algo)}
    errors = [learner.step(batch).priorities[TABLE].mean() for _ in range(400)]  # type: ignore[arg-type]
    assert np.mean(errors[-20:]) < errors[0] / 3


def test_architecture_names_what_must_agree() -> None:
    changes: list[dict[str, Any]] = [
        {}, {"quantiles": 0}, {"noisy": False}, {"head_units": 0}, {"dueling": False},
        {"cosines": 8},
    ]  # fmt: skip
    named = [algorithm(**change).architecture for change in changes]
    assert len(set(named)) == len(named)
    assert algorithm(quantiles=32).architecture == named[0]  # one set of params, more fractions


def test_only_munchausen_asks_for_the_actions_that_were_valid() -> None:
    for spaces, munchausen in product((SPACES, MASKED), (False, True)):
        views = algorithm(spaces, munchausen=munchausen).tables()[TABLE].item.views
        assert ("action_mask" in views) == (munchausen and spaces.action_mask)
        assert ("next_action_mask" in views) == spaces.action_mask


def test_a_soft_policy_refuses_to_choose() -> None:
    with pytest.raises(ConfigError, match=r"algo\.munchausen .* algo\.double") as caught:
        algorithm(double=True)
    assert caught.value.remedy == "set one of them to false"
    for name, value in [("munchausen_clip", 0.1), ("munchausen_temperature", 0.0)]:
        with pytest.raises(ConfigError, match=name):
            algorithm(**{name: value})
