"""Heads: what an algorithm puts on top of a network of features, one linear layer each."""

from __future__ import annotations

import torch
from torch import nn


class QNet(nn.Module):
    """Q values of observations: [n, *obs_shape] -> [n, num_actions] float32.

    dueling (Wang et al., 2016): Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a'). Both heads are
    one linear layer of 1 + num_actions outputs. torso: see drlnet.nets.
    """

    def __init__(self, torso: nn.Module, num_actions: int, *, dueling: bool):
        super().__init__()
        self.dueling = dueling
        self.torso = torso
        self.head = nn.Linear(int(torso.features), num_actions + int(dueling))  # type: ignore[arg-type]

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """obs: [n, *obs_shape] -> Q values [n, num_actions]."""
        out: torch.Tensor = self.head(self.torso(obs))
        if not self.dueling:
            return out
        value, advantage = out[:, :1], out[:, 1:]
        return value + advantage - advantage.mean(1, keepdim=True)


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
