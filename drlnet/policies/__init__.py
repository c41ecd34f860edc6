"""Policies: how an actor chooses its actions, one file each."""

from drlnet.policies.epsilon_greedy import EpsilonGreedy
from drlnet.policies.ladder import epsilon_ladder

__all__ = ["EpsilonGreedy", "epsilon_ladder"]
