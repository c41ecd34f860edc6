"""R2D2's targets and priorities against loops over the equations, its states, and its sequences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from oracle import OracleBatch

from drlnet.adders import tensors
from drlnet.algos import TABLE, make_algorithm, r2d2
from drlnet.config import load
from drlnet.envs import EnvSpaces, Rows, Streams
from drlnet.errors import ConfigError
from drlnet.metrics.catalog import find

SPACES = EnvSpaces(obs_shape=(3,), obs_dtype="float32", num_actions=4, first_action=0)


def h(x: float, epsilon: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + epsilon * x


def test_the_rescaling_and_its_inverse() -> None:
    x = torch.tensor([-300.0, -1.0, -1e-3, 0.0, 0.5, 3.0, 1e4], dtype=torch.float64)
    there = r2d2.rescale(x, 1e-3)
    np.testing.assert_allclose(there, [h(float(one), 1e-3) for one in x], rtol=1e-5)
    np.testing.assert_allclose(r2d2.unscale(there, 1e-3), x, rtol=1e-4, atol=1e-6)


def naive(
    value: np.ndarray, reward: np.ndarray, discount: np.ndarray, length: int,
    settings: r2d2.R2d2Settings,
) -> list[float]:  # fmt: skip
    """y_0 .. y_m-1 of one sequence, h^-1 by bisection."""
    epsilon, found = settings.rescale_epsilon, []
    for t in range(length):
        total, factor = 0.0, 1.0
        end = min(t + settings.n_step, length)
        for row in range(t, end):
            total += factor * reward[row]
            factor *= settings.gamma * discount[row]
        low, high = -1e6, 1e6
        while high - low > 1e-9 * max(1.0, abs(low)):
            middle = (low + high) / 2
            low, high = (middle, high) if h(middle, epsilon) < value[end] else (low, middle)
        found.append(h(total + factor * low, epsilon))
    return found


@pytest.mark.parametrize("n_step", [1, 5, 40])
def test_targets(n_step: int) -> None:
    rng = np.random.default_rng(3)
    settings = r2d2.R2d2Settings(n_step=n_step, gamma=0.97)
    value = 3 * rng.normal(size=(32, 13))
    reward = rng.normal(size=(32, 12))
    discount = np.where(rng.random((32, 12)) < 0.1, 0.0, 1.0)
    length = rng.integers(1, 13, 32)
    arrays = (value, reward, discount, length)
    found = r2d2.targets(*map(torch.from_numpy, arrays), settings)
    for index, count in enumerate(length):
        known = naive(*(one[index] for one in arrays), settings)
        np.testing.assert_allclose(found[index, :count], known, rtol=1e-5, atol=1e-5)


def test_priorities_are_of_the_steps_that_count() -> None:
    error = torch.tensor([[1.0, -3.0, 9.0], [2.0, 2.0, -4.0], [1.0, 1.0, 1.0]])
    counted = torch.tensor([[True, True, False], [False, True, True], [False, False, False]])
    found = r2d2.priorities(error, counted, 0.9)
    np.testing.assert_allclose(found, [0.9 * 3 + 0.1 * 2, 0.9 * 4 + 0.1 * 3, 0.0], rtol=1e-6)


def algorithm(**flags: Any) -> r2d2.R2d2:
    settings = {
        "algo.units": 5, "algo.length": 8, "algo.period": 4, "algo.burn_in": 3,
        "net.hidden_sizes": (8,), "algo.max_grad_norm": None, **flags,
    }  # fmt: skip
    made = make_algorithm(load(flags={"algo.name": "r2d2", **settings}), SPACES)
    assert isinstance(made, r2d2.R2d2)
    return made


def test_its_defaults_begin_to_learn_after_some_thousand_steps() -> None:
    config = load(flags={"algo.name": "r2d2"})
    assert config.replay.min_size * config.algo.period == 8_000
    assert config.replay.batch_size == 32 and config.replay.samples_per_insert == 8


def episodes(streams: int, steps: int) -> Iterator[Rows]:
    """Rows of episodes of 1 to 30 steps; now and then a stream has none."""
    rng = np.random.default_rng(5)
    last = np.ones(streams, bool)
    left = np.zeros(streams, np.int64)
    for _ in range(steps):
        mask = rng.random(streams) < 0.9
        first = last & mask
        left = np.where(first, rng.integers(1, 31, streams), left - mask)
        last = np.where(mask, left == 0, last)
        terminated = last & mask & (rng.random(streams) < 0.5)
        yield Rows(
            obs=rng.normal(size=(streams, 3)).astype(np.float32),
            reward=np.where(first, 0, rng.normal(size=streams)).astype(np.float32),
            terminated=terminated, truncated=last & mask & ~terminated, first=first,
            last=last & mask, mask=mask,
        )  # fmt: skip


def played(algo: r2d2.R2d2, count: int = 3, steps: int = 300) -> tuple[list[Any], list[Any]]:
    """The rows of each stream, as (columns, first, last), and the (stream, anchor) of all items."""
    ordinals = np.arange(count)
    agent = algo.agent(Streams(ordinals, 0, count, np.random.default_rng(1)))
    agent.load(algo.learner("cpu", 1).params())
    rows: list[list[Any]] = [[] for _ in range(count)]
    items = []
    for one in episodes(count, steps):
        _, columns = agent.act(one)
        assert one.mask is not None
        numbers = np.where(one.mask, [len(stream) for stream in rows], -1)
        for stream in np.flatnonzero(one.mask):
            own = {name: column[stream].copy() for name, column in columns[TABLE].items()}
            rows[stream].append((own, bool(one.first[stream]), bool(one.last[stream])))
        found = agent.items({TABLE: numbers})[TABLE]
        items += list(zip(found.streams.tolist(), found.steps.tolist(), strict=True))
    return rows, items


def test_sequences_begin_in_every_period_and_end_with_their_episode() -> None:
    rows, items = played(algorithm())
    assert len(set(items)) == len(items)
    for stream, own in enumerate(rows):
        begins = [number for number, (_, first, _) in enumerate(own) if first]
        for begin, after in zip(begins, [*begins[1:], len(own)], strict=True):
            steps, whole = after - begin - 1, own[after - 1][2]
            known = {
                begin + a
                for a in range(0, steps + 1, 4)
                if a + 8 <= steps or (whole and a < steps and (a == 0 or steps - a >= 4))
            }
            assert known == {a for s, a in items if s == stream and begin <= a < after}


@pytest.mark.parametrize(
    ("length", "period", "burn_in"),
    [(8, 4, 3), (8, 4, 4), (9, 5, 4), (9, 5, 0), (8, 2, 6), (5, 1, 4), (1, 1, 0), (2, 1, 0)],
)
def test_every_step_counts_in_some_sequence_and_each_sequence_counts_steps(
    length: int, period: int, burn_in: int
) -> None:
    shape = {"algo.length": length, "algo.period": period, "algo.burn_in": burn_in}
    rows, items = played(algorithm(**shape))
    for stream, own in enumerate(rows):
        begins = [number for number, (_, first, _) in enumerate(own) if first]
        for begin, end in itertools.pairwise(begins):
            left = set(range(begin, end - 1))  # the last row is no step
            for anchor in (a for s, a in items if s == stream and begin <= a < end):
                skipped = 0 if anchor == begin else burn_in
                counted = range(anchor + skipped, min(anchor + length, end - 1))
                assert counted, (begin, anchor, end)
                left -= set(counted)
            assert not left, (begin, end)


def batch_of(algo: r2d2.R2d2, rows: list[Any], items: list[Any]) -> OracleBatch:
    """The items' views, as a table gathers them: rows behind an episode's end are padding."""
    views: dict[str, list[np.ndarray]] = {}
    lengths = []
    for stream, anchor in items:
        own = rows[stream]
        end = next(i for i in range(anchor, anchor + 9) if own[i][2] or i == anchor + 8)
        lengths.append(end - anchor)
        for name, view in algo.tables()[TABLE].item.views.items():
            low, high = view.bounds
            window = [own[min(anchor + at, end)][0][view.column] for at in range(low, high + 1)]
            if view.pad == "zero":
                window[end - anchor + 1 :] = [0 * one for one in window[end - anchor + 1 :]]
            views.setdefault(name, []).append(np.stack(window))
    size = len(items)
    return OracleBatch(
        views={name: np.stack(view) for name, view in views.items()},
        keys=np.arange(size, dtype=np.uint64),
        probabilities=np.full(size, 1 / size, np.float32), length=np.array(lengths, np.uint32),
        item_count=size, age=np.zeros(size, np.int64), env_steps=100, items_created=size,
        items_drawn=size,
    )  # fmt: skip


@pytest.mark.parametrize("core", ["lstm", "gru"])
def test_a_sequence_s_values_are_those_that_the_actor_saw(core: str) -> None:
    """With the actor's params, the stored state makes the values of the whole episode's state."""
    algo = algorithm(**{"algo.core": core})
    rows, items = played(algo)
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
    rows, items = played(algo)
    learner = algo.learner("cpu", 1)
    view = tensors(batch_of(algo, rows, items), learner.device, SPACES)  # type: ignore[arg-type]
    start = view["previous_action"][:, 0] < 0
    view["obs"].requires_grad_(True)
    learner.values(learner.online, view, start)[:, 3:].sum().backward()  # type: ignore[no-untyped-call]
    assert view["obs"].grad is not None
    before = view["obs"].grad[:, :3].abs().sum((1, 2))
    assert (before[~start] == 0).all() and (before[start] > 0).all()
    assert (view["obs"].grad[:, 3:].abs().sum((1, 2)) > 0).all()


def test_a_step_is_the_gradient_of_the_weighted_loss() -> None:
    algo = algorithm(**{"algo.optimizer": "rmsprop", "algo.n_step": 2})
    rows, items = played(algo)
    batch, learner = batch_of(algo, rows, items[:12]), algo.learner("cpu", 1)
    rng = np.random.default_rng(0)
    batch.probabilities = rng.uniform(0.01, 0.2, 12).astype(np.float32)
    view = tensors(batch, learner.device, SPACES)  # type: ignore[arg-type]
    start = view["previous_action"][:, 0] < 0
    q = learner.values(learner.online, view, start)
    terms, counts, known = [], 0, []
    weights = (12 * batch.probabilities) ** -0.6
    weights /= weights.max()
    for b in range(12):
        length = int(batch.length[b])
        value = q[b].detach().max(1).values.numpy()  # the target is a copy
        goals = naive(
            value, batch.views["reward"][b, 1:], batch.views["discount"][b, 1:], length,
            learner.settings,
        )  # fmt: skip
        steps = range(0 if start[b] else 3, length)
        taken = batch.views["previous_action"][b, 1:]
        errors = [goals[t] - q[b, t, int(taken[t])] for t in steps]
        counts += len(errors)
        terms += [float(weights[b]) * error.square() / 2 for error in errors]
        sizes = [abs(error.item()) for error in errors]
        known.append(0.9 * max(sizes) + 0.1 * sum(sizes) / len(sizes) if sizes else 0.0)
    loss = torch.stack(terms).sum() / counts
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    assert all(find(f"client.learner.{name}") for name in learned.figures)
    torch.testing.assert_close(learned.figures["loss"], loss.detach(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(learned.priorities[TABLE], known, rtol=1e-3, atol=1e-5)
    again = algo.learner("cpu", 1)
    again.step({TABLE: batch})  # type: ignore[dict-item]
    for one, other in zip(learner.params().values(), again.params().values(), strict=True):
        assert torch.equal(one, other)


def test_the_greedy_player_remembers_by_environment() -> None:
    algo = algorithm()
    player = algo.greedy(3)
    player.load(algo.learner("cpu", 1).params())
    rows = next(episodes(3, 1))
    rows = replace(rows, first=np.ones(3, bool), mask=np.array([True, False, True]))
    player.act(rows)
    kept = player._state.copy()
    assert (kept[1] == 0).all() and (kept[[0, 2]] != 0).any(1).all()
    player.act(replace(rows, first=np.array([True, False, False]), mask=None))
    np.testing.assert_array_equal(player._state[0], kept[0])  # the same row, from nothing again
    assert (player._state[2] != kept[2]).any()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"net.frame_stack": 4}, "stacks no frames"),
        ({"algo.burn_in": 8}, "leaves nothing to learn"),
        ({"algo.period": 9}, "may begin 4 steps apart at most"),  # the tails of episodes
        ({"algo.burn_in": 5}, "may begin 3 steps apart at most"),  # between two sequences
        ({"algo.length": 9, "algo.period": 6}, "may begin 5 steps apart at most"),
    ],
)
def test_what_cannot_work(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        algorithm(**flags)
