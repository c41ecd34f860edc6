"""Environments: gymnasium vector environments brought to one row form."""

from drlnet.envs.make import EnvSpaces, crashed, find_spaces, make_envs
from drlnet.envs.rows import RowEnv, Rows, Streams, ticks

__all__ = ["EnvSpaces", "RowEnv", "Rows", "Streams", "crashed", "find_spaces", "make_envs", "ticks"]
