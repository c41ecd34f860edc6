"""Heads: what an algorithm puts on top of a network of features."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from drlnet.nets.noisy import NoisyLinear


class QNet(nn.Module):
    """Q values of observations: [n, *obs_shape] -> [n, num_actions] float32.

    dueling (Wang et al., 2016): Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a'). Both heads are
    one linear layer of 1 + num_actions outputs. units: where above 0, V and A have a hidden layer
    of that width each. linear: makes the layers. torso: see drlnet.nets.
    """

    def __init__(
        self,
        torso: nn.Module,
        num_actions: int,
        *,
        dueling: bool,
        units: int = 0,
        linear: Callable[[int, int], nn.Module] = nn.Linear,
    ):
        super().__init__()
        self.dueling = dueling
        self.torso = torso
        features = int(torso.features)  # type: ignore[arg-type]
        outputs = [1, num_actions] if dueling else [num_actions]
        if units:
            self.head: nn.Module = _SideBySide(
                nn.Sequential(linear(features, units), nn.ReLU(), linear(units, size))
                for size in outputs
            )
        else:
            self.head = linear(features, sum(outputs))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """obs: [n, *obs_shape] -> Q values [n, num_actions]."""
        return self.values(self.torso(obs))

    def values(self, features: torch.Tensor) -> torch.Tensor:
        """The heads alone: [n, features] -> [n, num_actions]."""
        out: torch.Tensor = self.head(features)
        if not self.dueling:
            return out
        value, advantage = out[:, :1], out[:, 1:]
        return value + advantage - advantage.mean(1, keepdim=True)

    def sample_noise(self, generator: torch.Generator) -> None:
        """Draws new noise for layers that are noisy. generator: a processor's."""
        for layer in self.modules():
            if isinstance(layer, NoisyLinear):
                layer.sample(generator)


class _SideBySide(nn.ModuleList):
    """Modules of one input, their outputs side by side."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([one(x) for one in self], 1)


class QuantileNet(QNet):
    """Quantiles of each action's return, at any fractions (IQN, Dabney et al., 2018).

    With the torso's features x and i = 0 .. cosines - 1, a fraction tau has the quantiles

        Z(o, a; tau) = head_a(x * relu(W cos(pi i tau) + b))

    The network itself gives Q values, the means of Z over `samples` fractions: the middles of as
    many equal parts of [0, 1]. Nothing is drawn. head: as QNet's keywords.
    """

    midpoints: torch.Tensor
    frequencies: torch.Tensor

    def __init__(self, torso: nn.Module, num_actions: int, samples: int, cosines: int, **head: Any):
        super().__init__(torso, num_actions, **head)
        self.embedding = nn.Linear(cosines, int(torso.features))  # type: ignore[arg-type]
        self.register_buffer(
            "midpoints", (torch.arange(samples)[None] + 0.5) / samples, persistent=False
        )
        self.register_buffer("frequencies", math.pi * torch.arange(cosines), persistent=False)

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """obs: [n, *obs_shape] -> Q values [n, num_actions]."""
        return self.quantiles(obs, self.midpoints).mean(1)

    def quantiles(self, obs: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:
        """Z at the fractions tau [n, N], or [1, N] for all: [n, N, num_actions]."""
        embedded = self.embedding((tau[..., None] * self.frequencies).cos()).relu()
        mixed = self.torso(obs)[:, None] * embedded  # [n, N, features]
        return self.values(mixed.flatten(0, 1)).view(*mixed.shape[:2], -1)


class PolicyNet(nn.Module):
    """Logits and values of observations: [n, *obs_shape] -> [n, num_actions], [n], float32.

    The policy and the value share the torso. torso: see drlnet.nets.
    """

    def __init__(self, torso: nn.Module, num_actions: int):
        super().__init__()
        self.torso = torso
        self.head = nn.Linear(int(torso.features), num_actions + 1)  # type: ignore[arg-type]
        with torch.no_grad():  # a policy that prefers no action at first explores longest
            self.head.weight[:num_actions] *= 0.01
            self.head.bias[:num_actions] = 0

    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """obs: [n, *obs_shape] -> logits [n, num_actions], values [n]."""
        out: torch.Tensor = self.head(self.torso(obs))
        return out[:, :-1], out[:, -1]
