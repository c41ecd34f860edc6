"""Networks that act or are targets leave what adapts in them as it was trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from drlnet.algos import NAMES, TargetNetLearner, make_algorithm
from drlnet.config import load
from drlnet.envs import EnvSpaces, Rows, Streams

SPACES = EnvSpaces(obs_shape=(12, 12, 1), obs_dtype="uint8", num_actions=3, first_action=0)
FLAGS = {
    "net.name": "impala", "net.spectral_norm": True, "net.channels": (4,), "net.hidden_sizes": (8,),
    "net.norm": "none", "net.precision": "float32",
}  # fmt: skip


def rows() -> Rows:
    off = np.zeros(2, bool)
    obs = np.random.default_rng(0).integers(0, 255, (2, 12, 12, 1), np.uint8)
    return Rows(
        obs=obs, reward=np.zeros(2, np.float32), terminated=off, truncated=off, first=~off, last=off
    )


@pytest.mark.parametrize("name", [name for name in NAMES if name != "tabular"])  # of no network
def test_acting_and_targets_move_no_spectral_norm(name: str) -> None:
    algo = make_algorithm(load(flags={"algo.name": name, **FLAGS}), SPACES)
    learner = algo.learner("cpu", 1)
    streams = Streams(np.arange(2), first=0, total=2, rng=np.random.default_rng(1))
    agent, player = algo.agent(streams), algo.greedy(2)
    for one in (agent, player):
        one.load(learner.params())
        for _ in range(3):
            one.act(rows())
        for key, param in one.net.state_dict().items():  # type: ignore[attr-defined]
            assert torch.equal(param, learner.params()[key]), key
    if isinstance(learner, TargetNetLearner):
        assert not any(module.training for module in learner.target.modules())
        assert not any(param.requires_grad for param in learner.target.parameters())
    assert learner.online.training  # type: ignore[attr-defined]
