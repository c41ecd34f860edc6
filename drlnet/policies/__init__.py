"""Policies: how an agent explores, one file each."""

from drlnet.policies.epsilon_greedy import EpsilonGreedy, EpsilonGreedySettings
from drlnet.policies.ladder import epsilon_ladder
from drlnet.policies.softmax import Softmax

__all__ = ["EpsilonGreedy", "EpsilonGreedySettings", "Softmax", "epsilon_ladder"]
