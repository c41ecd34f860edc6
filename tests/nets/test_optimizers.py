"""The optimizers against torch's own, bit by bit, and what stands around them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch

from drlnet.nets.mlp import Mlp
from drlnet.nets.optimizers import Optimizer
from drlnet.nets.settings import MlpSettings, OptimizerSettings


def nets() -> tuple[Mlp, Mlp]:
    torch.manual_seed(0)
    ours = Mlp(MlpSettings(hidden_sizes=(16, 8)), (4,))
    return ours, copy.deepcopy(ours)


@pytest.mark.parametrize(
    ("name", "torchs", "fused"),
    [
        ("adam", torch.optim.Adam, False),
        ("adam", torch.optim.Adam, True),
        ("adamw", torch.optim.AdamW, False),
        ("adamw", torch.optim.AdamW, True),
        ("radam", torch.optim.RAdam, False),
        ("rmsprop", torch.optim.RMSprop, False),
        ("rmsprop", torch.optim.RMSprop, True),
    ],
)
def test_it_is_torchs(name: Any, torchs: Any, fused: bool) -> None:
    ours, theirs = nets()
    settings = OptimizerSettings(
        optimizer=name, learning_rate=5e-4, adam_epsilon=1e-6, max_grad_norm=None
    )
    own = Optimizer(settings, ours.parameters(), fused=fused)
    options = {"fused": fused} if name.startswith("adam") else {"foreach": True}
    known = torchs(theirs.parameters(), lr=5e-4, eps=1e-6, **options)
    for _ in range(100):
        obs = torch.randn(32, 4)
        for net in (ours, theirs):
            net(obs).square().mean().backward()
        own.step()
        known.step()
        known.zero_grad()
        assert all(map(torch.equal, ours.parameters(), theirs.parameters()))
        assert all(one.grad is None for one in ours.parameters())


@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
def test_fused_radam_is_torchs_but_for_its_rounding(epsilon: float) -> None:
    ours, theirs = nets()
    settings = OptimizerSettings(
        optimizer="radam", learning_rate=5e-4, adam_epsilon=epsilon, max_grad_norm=None
    )
    own = Optimizer(settings, ours.parameters())
    known = torch.optim.RAdam(theirs.parameters(), lr=5e-4, eps=epsilon)
    for _ in range(200):
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            one.grad = torch.randn_like(one)
            other.grad = one.grad.clone()
        own.step()
        known.step()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "torchs"),
    [
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
        ("radam", torch.optim.RAdam),
        ("rmsprop", torch.optim.RMSprop),
    ],
)
def test_a_param_without_a_gradient_stays_as_torchs_does(name: Any, torchs: Any) -> None:
    """A layer that a network never uses, or not at each step."""
    ours, theirs = nets()
    settings = OptimizerSettings(
        optimizer=name, learning_rate=5e-4, adam_epsilon=1e-6, max_grad_norm=1e9
    )
    own = Optimizer(settings, ours.parameters())
    known = torchs(theirs.parameters(), lr=5e-4, eps=1e-6)
    unused = next(ours.parameters()).clone()
    for step in range(40):
        if step == 20:  # each param goes on from its own step
            kept, own = own.state_dict(), Optimizer(settings, ours.parameters())
            own.load_state_dict(kept)
        pairs = list(zip(ours.parameters(), theirs.parameters(), strict=True))
        for index, (one, other) in enumerate(pairs):
            if index and step % index == 0:
                one.grad = torch.randn_like(one)
                other.grad = one.grad.clone()
        own.step()
        known.step()
        known.zero_grad()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
    assert torch.equal(next(ours.parameters()), unused)


def test_gradients_are_clipped_and_a_state_goes_on() -> None:
    ours, theirs = nets()
    settings = OptimizerSettings(optimizer="radam", max_grad_norm=0.1)
    first, second = (Optimizer(settings, net.parameters()) for net in (ours, theirs))
    for _ in range(10):
        (1e3 * ours(torch.randn(8, 4))).square().mean().backward()
        first.step()
    theirs.load_state_dict(ours.state_dict())
    second.load_state_dict(first.state_dict())
    obs = torch.randn(8, 4)
    for net, optimizer in ((ours, first), (theirs, second)):
        net(obs).square().mean().backward()
        optimizer.step()
    assert all(map(torch.equal, ours.parameters(), theirs.parameters()))


@pytest.mark.parametrize("name", ["adam", "adamw", "radam", "rmsprop"])
def test_ranks_whose_channels_lie_in_other_orders_clip_alike(name: Any) -> None:
    """And as one process alone does."""
    settings = OptimizerSettings(optimizer=name, max_grad_norm=10.0)
    torch.manual_seed(1)
    layers: Any = torch.nn.Sequential(torch.nn.Conv2d(4, 32, 8), torch.nn.Conv2d(32, 63, 3))
    alone, rank, other = nets = [copy.deepcopy(layers) for _ in range(3)]
    other.to(memory_format=torch.channels_last)
    optimizers = [Optimizer(settings, net.parameters()) for net in nets]
    for optimizer in optimizers[1:]:
        optimizer.exchange = lambda _, rate: rate
    for size in (1, 1, 1, 1e-6, 1):  # the fourth is short enough already
        given = [size * torch.randn(one.shape) for one in layers.parameters()]
        for net, optimizer in zip(nets, optimizers, strict=True):
            for one, grad in zip(net.parameters(), given, strict=True):
                one.grad = torch.empty_like(one).copy_(grad)
            optimizer.step()
        assert all(map(torch.equal, rank.parameters(), other.parameters()))
        assert all(map(torch.equal, rank.parameters(), alone.parameters()))


def test_the_rate_decays_over_env_steps_or_the_budget() -> None:
    ours, _ = nets()
    settings = OptimizerSettings(learning_rate=1e-3, learning_rate_end=1e-4)
    rates = Optimizer(settings, ours.parameters())
    assert [rates.learning_rate(5000, spent) for spent in (0, 0.5, 1, 1.1)] == pytest.approx(
        [1e-3, 5.5e-4, 1e-4, 1e-4]
    )
    sooner = Optimizer(replace(settings, learning_rate_env_steps=1000), ours.parameters())
    assert [sooner.learning_rate(n, 0.5) for n in (0, 500, 900, 5000)] == pytest.approx(
        [5.5e-4, 5.5e-4, 1.9e-4, 1e-4]
    )
    constant = Optimizer(replace(settings, learning_rate_end=None), ours.parameters())
    assert constant.learning_rate(5000, 1.0) == 1e-3
