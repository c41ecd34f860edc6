"""Heads: dueling with and without hidden layers, quantiles as the formula has them, and noise."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from drlnet.nets.heads import QNet, QuantileNet
from drlnet.nets.mlp import Mlp
from drlnet.nets.noisy import NoisyLinear
from drlnet.nets.settings import MlpSettings


def torso(features: int = 5) -> Mlp:
    return Mlp(MlpSettings(hidden_sizes=(features,)), (3,))


@pytest.mark.parametrize("units", [0, 7])
def test_dueling_advantages_have_no_mean(units: int) -> None:
    torch.manual_seed(0)
    net, obs = QNet(torso(), 4, dueling=True, units=units), torch.randn(6, 3)
    out = net.head(net.torso(obs))
    assert out.shape == (6, 5)
    torch.testing.assert_close(net(obs).mean(1), out[:, 0])
    torch.testing.assert_close(net(obs).diff(dim=1), out[:, 1:].diff(dim=1))
    plain = QNet(torso(), 4, dueling=False, units=units)
    torch.testing.assert_close(plain(obs), plain.head(plain.torso(obs)))


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("units", [0, 7])
def test_quantiles_follow_the_formula(units: int, dueling: bool) -> None:
    torch.manual_seed(0)
    net = QuantileNet(torso(), 4, 3, 6, dueling=dueling, units=units)
    obs, tau = torch.randn(2, 3), torch.rand(2, 8)
    found, features = net.quantiles(obs, tau), net.torso(obs)
    assert found.shape == (2, 8, 4)
    weight, bias = net.embedding.weight.tolist(), net.embedding.bias.tolist()
    for b in range(2):
        for k in range(8):
            cosines = [math.cos(math.pi * i * float(tau[b, k])) for i in range(6)]
            embedded = [
                max(0.0, offset + sum(w * c for w, c in zip(row, cosines, strict=True)))
                for row, offset in zip(weight, bias, strict=True)
            ]
            mixed = features[b] * torch.tensor(embedded)
            torch.testing.assert_close(found[b, k], net.values(mixed[None])[0])
    middles = torch.tensor([[1 / 6, 3 / 6, 5 / 6]] * 2)
    torch.testing.assert_close(net(obs), net.quantiles(obs, middles).mean(1))


def test_noise_has_the_paper_s_distribution() -> None:
    torch.manual_seed(0)
    layer, generator = NoisyLinear(4, 3, scale=0.5), torch.Generator().manual_seed(1)
    assert float(layer.weight.detach().abs().max()) <= 0.5  # 1 / sqrt(inputs)
    assert torch.equal(layer.weight_scale, torch.full((3, 4), 0.25))
    assert torch.equal(layer.bias_scale, torch.full((3,), 0.25))
    x = torch.tensor([[1.0, -2.0, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]])
    mean = torch.nn.functional.linear(x, layer.weight, layer.bias)
    assert torch.equal(layer(x), mean)  # before the first draw
    drawn = []
    with torch.no_grad():
        for _ in range(40_000):
            layer.sample(generator)
            drawn.append((layer(x) - mean).numpy())
    noise = np.stack(drawn).astype(np.float64)
    # E f(e)^2 = E |e| = sqrt(2 / pi); the output's and the inputs' noise multiply.
    half = math.sqrt(2 / math.pi)
    variance = 0.25**2 * half * (half * x.square().sum(1).numpy() + 1)
    np.testing.assert_allclose(noise.mean(0), 0, atol=0.02)
    np.testing.assert_allclose(noise.var(0), np.repeat(variance[:, None], 3, 1), rtol=0.05)
    correlation = np.corrcoef(noise[:, 0].T)
    np.testing.assert_allclose(correlation, np.eye(3), atol=0.05)
    # One draw is of rank one, over the weights and the bias together.
    effect = torch.tensor(noise[-1][:, :]).float()
    torch.testing.assert_close(effect[1], 0.25 * layer.noise_out)
    torch.testing.assert_close(effect[0], effect[1] * (x[0] @ layer.noise_in + 1))


def test_noise_belongs_to_one_network() -> None:
    torch.manual_seed(0)
    net = QNet(torso(), 4, dueling=True, units=7, linear=NoisyLinear)
    other, obs = copy.deepcopy(net), torch.randn(6, 3)
    net.sample_noise(torch.Generator().manual_seed(1))
    assert not torch.equal(net(obs), other(obs))
    before = other(obs)
    other.load_state_dict(net.state_dict())
    assert torch.equal(other(obs), before)
    net(obs).square().mean().backward()
    assert all(one.grad is not None and one.grad.any() for one in net.head.parameters())
