"""A multilayer perceptron over vector observations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from drlnet.nets.settings import MlpSettings


class Mlp(nn.Sequential):
    """Features of observations: [n, *obs_shape] -> [n, features] float32, ReLU after each layer.

    Observations of uint8 are scaled to [0, 1]. Without hidden layers the features are the inputs.
    """

    def __init__(self, settings: MlpSettings, obs_shape: Sequence[int]):
        sizes = [math.prod(obs_shape), *settings.hidden_sizes]
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise(sizes):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        super().__init__(*layers)
        self.features = sizes[-1]

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """obs: [n, *obs_shape] -> [n, features]."""
        if obs.dtype == torch.uint8:
            obs = obs.float() / 255.0
        if obs.ndim != 2:
            obs = obs.reshape(len(obs), -1)  # a number alone is a vector of one, too
        for layer in self:
            obs = layer(obs)
        return obs
