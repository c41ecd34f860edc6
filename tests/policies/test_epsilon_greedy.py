"""Epsilon-greedy: greedy where epsilon is 0, uniform where it is 1, each stream by its own."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from drlnet.policies import EpsilonGreedy


class Fixed(nn.Module):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return torch.tensor([0.0, 2.0, 1.0]).expand(len(obs), 3)


def act(epsilons: list[float], times: int, seed: int = 0) -> np.ndarray:
    policy = EpsilonGreedy(Fixed(), 3, epsilons, np.random.default_rng(seed))
    size = len(epsilons)
    obs = np.zeros((size, 2), dtype=np.float32)
    none = np.zeros(size, dtype=np.bool_)
    return np.stack([policy.act(obs, none, np.arange(size))[0] for _ in range(times)])


def test_each_stream_has_its_own_epsilon() -> None:
    actions = act([0.0, 1.0, 0.3], 4000)
    assert (actions[:, 0] == 1).all()
    share = (actions == 1).mean(0)
    assert abs(share[1] - 1 / 3) < 0.03 and abs(share[2] - (0.7 + 0.1)) < 0.03


def test_same_seed_same_actions() -> None:
    assert np.array_equal(act([0.5] * 4, 50, seed=3), act([0.5] * 4, 50, seed=3))


def test_extras_hold_q() -> None:
    policy = EpsilonGreedy(Fixed(), 3, [0.0], np.random.default_rng(0))
    action, state, extras = policy.act(
        np.zeros((1, 2), np.float32), np.ones(1, np.bool_), np.zeros(1, np.int64), "carried"
    )
    assert action.tolist() == [1] and action.dtype == np.int64 and state == "carried"
    assert extras["q"].tolist() == [[0.0, 2.0, 1.0]]
