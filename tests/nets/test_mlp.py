"""The MLP: shapes, the dueling identity, and an architecture string that tells nets apart."""

from __future__ import annotations

import pytest
import torch

from drlnet.nets import Mlp


@pytest.mark.parametrize("dueling", [False, True])
def test_shapes(dueling: bool) -> None:
    net = Mlp((4,), 3, (16, 8), dueling)
    assert net(torch.randn(5, 4)).shape == (5, 3)
    assert Mlp((2, 3), 3, (), dueling)(torch.randn(5, 2, 3)).shape == (5, 3)
    assert Mlp((), 3, (8,), dueling)(torch.randn(5)).shape == (5, 3)


def test_dueling_mean_is_the_value() -> None:
    net = Mlp((4,), 3, (16,), True)
    obs = torch.randn(7, 4)
    value = net.head(net.torso(obs))[:, 0]
    torch.testing.assert_close(net(obs).mean(1), value)


def test_bytes_are_scaled() -> None:
    net = Mlp((4,), 2, (8,), False)
    raw = torch.tensor([[0, 51, 102, 255]], dtype=torch.uint8)
    torch.testing.assert_close(net(raw), net(raw.float() / 255))


def test_architecture_names_what_must_agree() -> None:
    nets = [
        Mlp((4,), 2, (64, 64), True),
        Mlp((4,), 2, (64, 64), False),
        Mlp((4,), 2, (64,), True),
        Mlp((6,), 2, (64, 64), True),
        Mlp((4,), 3, (64, 64), True),
    ]
    assert len({net.architecture for net in nets}) == len(nets)
    assert nets[0].architecture == "mlp obs=4 actions=2 hidden=64-64 dueling=true"
