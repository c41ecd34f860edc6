"""Environments: gymnasium vector environments brought to one row form."""

from drlnet.envs.film import Film, film
from drlnet.envs.make import close_crashed, crashed, find_spaces, make_envs
from drlnet.envs.pace import Pace
from drlnet.envs.rows import RowEnv, Rows, Streams, ticks
from drlnet.envs.single import make_single
from drlnet.envs.spaces import EnvSpaces

__all__ = [
    "EnvSpaces",
    "Film",
    "Pace",
    "RowEnv",
    "Rows",
    "Streams",
    "close_crashed",
    "crashed",
    "film",
    "find_spaces",
    "make_envs",
    "make_single",
    "ticks",
]
