"""Environments: gymnasium vector environments brought to one row form."""

from drlnet.envs.make import EnvSpaces, make_envs
from drlnet.envs.rows import Rows, RowEnv

__all__ = ["EnvSpaces", "RowEnv", "Rows", "make_envs"]
