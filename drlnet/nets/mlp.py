"""A multilayer perceptron over vector observations, with an optional dueling head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn


class Mlp(nn.Module):
    """Q values of observations: [n, *obs_shape] -> [n, num_actions] float32.

    dueling (Wang et al., 2016): Q(s, a) = V(s) + A(s, a) - mean over a' of A(s, a'). Both heads are
    one linear layer of 1 + num_actions outputs. Observations of uint8 are scaled to [0, 1].
    """

    def __init__(
        self,
        obs_shape: Sequence[int],
        num_actions: int,
        hidden_sizes: Sequence[int],
        dueling: bool,
    ):
        super().__init__()
        self.dueling = dueling
        sizes = [math.prod(obs_shape), *hidden_sizes]
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.torso = nn.Sequential(*layers)
        self.head = nn.Linear(sizes[-1], num_actions + int(dueling))
        # What params must agree on to be exchanged; travels with every blob and checkpoint.
        self.architecture = (
            f"mlp obs={'x'.join(map(str, obs_shape))} actions={num_actions} "
            f"hidden={'-'.join(map(str, hidden_sizes))} dueling={str(dueling).lower()}"
        )

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """obs: [n, *obs_shape] -> Q values [n, num_actions]."""
        if obs.dtype == torch.uint8:
            obs = obs.float() / 255.0
        if obs.ndim != 2:
            obs = obs.reshape(len(obs), -1)  # a number alone is a vector of one, too
        out: torch.Tensor = self.head(self.torso(obs))
        if not self.dueling:
            return out
        value, advantage = out[:, :1], out[:, 1:]
        return value + advantage - advantage.mean(1, keepdim=True)
