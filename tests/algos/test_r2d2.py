"""R2D2's targets and priorities against loops over the equations, its states, and its sequences."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from algos.sequences import algorithm, episodes, h, naive, played

from drlnet.algos import r2d2
from drlnet.config import load
from drlnet.errors import ConfigError


def test_the_rescaling_and_its_inverse() -> None:
    x = torch.tensor([-300.0, -1.0, -1e-3, 0.0, 0.5, 3.0, 1e4], dtype=torch.float64)
    there = r2d2.rescale(x, 1e-3)
    np.testing.assert_allclose(there, [h(float(one), 1e-3) for one in x], rtol=1e-5)
    np.testing.assert_allclose(r2d2.unscale(there, 1e-3), x, rtol=1e-4, atol=1e-6)


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


def test_its_defaults_begin_to_learn_after_some_thousand_steps() -> None:
    config = load(flags={"algo.name": "r2d2"})
    assert config.replay.min_size * config.algo.period == 8_000
    assert config.replay.batch_size == 32 and config.replay.samples_per_insert == 8


def test_sequences_begin_in_every_period_and_end_with_their_episode() -> None:
    rows, items, _ = played(algorithm())
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
    rows, items, _ = played(algorithm(**shape))
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
        ({"algo.period": 9}, "may begin 4 steps apart at most"),  # the tails of episodes
        ({"algo.burn_in": 5}, "may begin 3 steps apart at most"),  # between two sequences
        ({"algo.length": 9, "algo.period": 6}, "may begin 5 steps apart at most"),
    ],
)
def test_what_cannot_work(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        algorithm(**flags)
