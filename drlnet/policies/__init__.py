"""Policies: one file each, and one line here."""

from __future__ import annotations

from drlnet.policies.epsilon_greedy import EpsilonGreedy
from drlnet.policies.ladder import epsilon_ladder

POLICIES = {"epsilon_greedy": EpsilonGreedy}

__all__ = ["POLICIES", "EpsilonGreedy", "epsilon_ladder"]
