"""The MLP and Q values on top of it: shapes, the dueling identity, bytes."""

from __future__ import annotations

import pytest
import torch

from drlnet.nets.heads import QNet
from drlnet.nets.mlp import Mlp
from drlnet.nets.settings import MlpSettings


def q_net(obs_shape: tuple[int, ...], actions: int, hidden: tuple[int, ...], dueling: bool) -> QNet:
    return QNet(Mlp(MlpSettings(hidden_sizes=hidden), obs_shape), actions, dueling=dueling)


@pytest.mark.parametrize("dueling", [False, True])
def test_shapes(dueling: bool) -> None:
    net = q_net((4,), 3, (16, 8), dueling)
    assert net(torch.randn(5, 4)).shape == (5, 3)
    assert q_net((2, 3), 3, (), dueling)(torch.randn(5, 2, 3)).shape == (5, 3)
    assert q_net((), 3, (8,), dueling)(torch.randn(5)).shape == (5, 3)


def test_dueling_mean_is_the_value() -> None:
    net = q_net((4,), 3, (16,), True)
    obs = torch.randn(7, 4)
    value = net.head(net.torso(obs))[:, 0]
    torch.testing.assert_close(net(obs).mean(1), value)


def test_bytes_are_scaled() -> None:
    net = q_net((4,), 2, (8,), False)
    raw = torch.tensor([[0, 51, 102, 255]], dtype=torch.uint8)
    torch.testing.assert_close(net(raw), net(raw.float() / 255))
