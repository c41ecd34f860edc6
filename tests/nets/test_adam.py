"""The optimiser against torch's own, bit by bit."""

from __future__ import annotations

import copy

import pytest
import torch

from drlnet.nets.adam import Adam
from drlnet.nets.mlp import Mlp
from drlnet.nets.settings import MlpSettings


@pytest.mark.parametrize("fused", [False, True])
def test_it_is_torchs(fused: bool) -> None:
    torch.manual_seed(0)
    ours = Mlp(MlpSettings(hidden_sizes=(16, 8)), (4,))
    theirs = copy.deepcopy(ours)
    own = Adam(ours.parameters(), 5e-4, 1e-6, fused=fused)
    known = torch.optim.Adam(theirs.parameters(), lr=5e-4, eps=1e-6, fused=fused)
    for _ in range(100):
        obs = torch.randn(32, 4)
        for net in (ours, theirs):
            net(obs).square().mean().backward()
        own.step()
        known.step()
        known.zero_grad()
        assert all(map(torch.equal, ours.parameters(), theirs.parameters()))
        assert all(one.grad is None for one in ours.parameters())
