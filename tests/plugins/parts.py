"""A network and a wrapper of a user's own, for any algorithm."""

from dataclasses import dataclass

import gymnasium as gym
import torch
from torch import nn

from drlnet.config import NetSettings, setting


class Fourier(nn.Module):
    """cos and sin of a random projection of observations: [n, *shape] -> [n, features]."""

    @dataclass(frozen=True)
    class Settings(NetSettings):
        waves: int = setting(32, "projections", low=1)

    def __init__(self, settings, obs_shape):
        super().__init__()
        self.projection = nn.Linear(obs_shape[0], settings.waves)
        self.features = 2 * settings.waves

    def forward(self, obs):
        waves = self.projection(obs)
        return torch.cat([waves.cos(), waves.sin()], 1)


class Half(gym.RewardWrapper):
    """Half the reward."""

    def reward(self, reward):
        return reward / 2
