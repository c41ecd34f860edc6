"""Epsilon-greedy: greedy where epsilon is 0, uniform where it is 1, each stream by its own."""

from __future__ import annotations

import numpy as np
import pytest

from drlnet.envs import Streams
from drlnet.policies import EpsilonGreedy, EpsilonGreedySettings


def policy(epsilons: list[float], seed: int = 0) -> EpsilonGreedy:
    rng, size = np.random.default_rng(seed), len(epsilons)
    made = EpsilonGreedy(EpsilonGreedySettings(), Streams(np.arange(size), 0, size, rng))
    made.epsilons = np.array(epsilons)
    return made


def act(epsilons: list[float], times: int, seed: int = 0) -> np.ndarray:
    chooses = policy(epsilons, seed)
    values = np.tile([0.0, 2.0, 1.0], (len(epsilons), 1))
    return np.stack([chooses.choose(values) for _ in range(times)])


def test_each_stream_has_its_own_epsilon() -> None:
    actions = act([0.0, 1.0, 0.3], 4000)
    assert (actions[:, 0] == 1).all()
    share = (actions == 1).mean(0)
    assert abs(share[1] - 1 / 3) < 0.03 and abs(share[2] - (0.7 + 0.1)) < 0.03


def test_same_seed_same_actions() -> None:
    assert np.array_equal(act([0.5] * 4, 50, seed=3), act([0.5] * 4, 50, seed=3))


def test_the_ladder_is_that_of_the_settings() -> None:
    rng = np.random.default_rng(0)
    ladders = [
        EpsilonGreedy(
            EpsilonGreedySettings(ladder=ladder), Streams(np.array([5, 6]), 2, 4, rng)
        ).epsilons
        for ladder in ("radical", "apex")
    ]
    assert ladders[0].tolist() != ladders[1].tolist()
    assert ladders[1] == pytest.approx([0.4 ** (1 + 7 * 2 / 3), 0.4**8])


def test_only_valid_actions_are_explored_and_evenly() -> None:
    valid = np.array([[True, False, True, True], [False, True, False, False]])
    values = np.where(valid, np.float32(0), np.float32(-np.inf))
    streams = Streams(np.arange(2), 0, 2, np.random.default_rng(0))
    policy = EpsilonGreedy(EpsilonGreedySettings(epsilon_base=1.0, epsilon_exponent=0.0), streams)
    counts = np.zeros((2, 4))
    for _ in range(3000):
        counts[np.arange(2), policy.choose(values, valid)] += 1
    assert counts[1].tolist() == [0, 3000, 0, 0] and counts[0, 1] == 0
    np.testing.assert_allclose(counts[0, [0, 2, 3]], 1000, atol=120)


def test_a_decay_counts_the_steps_of_streams_that_take_one() -> None:
    streams = Streams(np.arange(4), 0, 4, np.random.default_rng(0))
    settings = EpsilonGreedySettings(epsilon_decay_env_steps=80, epsilon_exponent=0.0)
    whole, half = EpsilonGreedy(settings, streams), EpsilonGreedy(settings, streams)
    values, mask = np.zeros((4, 3)), np.array([True, False, True, False])
    for _ in range(5):
        whole.choose(values)
        half.choose(values, mask=mask)
        half.choose(values, mask=~mask)
    assert np.array_equal(whole.current, half.current) and whole.current[0] < 1
