"""A multilayer perceptron over vector observations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from drlnet.nets.settings import MlpSettings


class Mlp(nn.Sequential):
    """Features of observations: [n, *obs_shape] -> [n, features] float32, ReLU after each layer.

    Observations of uint8 are scaled to [0, 1]. Without hidden layers the features are the inputs.
    """

    def __init__(self, settings: MlpSettings, obs_shape: Sequence[int]):
        inputs = math.prod(obs_shape)
        super().__init__(*dense_layers(inputs, settings.hidden_sizes, settings.norm))
        self.features = settings.hidden_sizes[-1] if settings.hidden_sizes else inputs

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """obs: [n, *obs_shape] -> [n, features]."""
        if obs.dtype == torch.uint8:
            obs = obs.float() / 255.0
        if obs.ndim != 2:
            obs = obs.reshape(len(obs), -1)  # a number alone is a vector of one, too
        for layer in self:
            obs = layer(obs)
        return obs


def dense_layers(inputs: int, sizes: Sequence[int], norm: str) -> list[nn.Module]:
    """Linear, LayerNorm where norm is "layer", ReLU: for each size."""
    layers: list[nn.Module] = []
    for outputs in sizes:
        layers.append(nn.Linear(inputs, outputs))
        if norm == "layer":
            layers.append(nn.LayerNorm(outputs))
        layers.append(nn.ReLU())
        inputs = outputs
    return layers
