"""Networks that do not keep the contract, each in its own way."""

import torch
from torch import nn


class NoFeatures(nn.Sequential):
    """Does not say how many features it makes."""

    def __init__(self, settings, obs_shape):
        super().__init__(nn.Linear(obs_shape[0], 64))


class WrongFeatures(NoFeatures):
    """Makes other ones than it says."""

    features = 32


class ForEight(nn.Sequential):
    """Takes vectors of eight alone."""

    features = 64

    def __init__(self, settings, obs_shape):
        super().__init__(nn.Linear(8, 64))

    def forward(self, obs):
        return super().forward(obs)


class OfImages(nn.Module):
    """Takes images alone."""

    def __init__(self, settings, obs_shape):
        super().__init__()
        self.features = obs_shape[2]


class Plain:
    """Not a module."""

    features = 4

    def __init__(self, settings, obs_shape):
        self.weight = torch.zeros(4)
