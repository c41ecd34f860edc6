"""Environments: gymnasium vector environments brought to one row form."""

from drlnet.envs.make import EnvSpaces, find_spaces, make_envs
from drlnet.envs.rows import RowEnv, Rows, ticks

__all__ = ["EnvSpaces", "RowEnv", "Rows", "find_spaces", "make_envs", "ticks"]
