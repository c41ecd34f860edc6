"""Algorithms: one file each, and one line here."""

from __future__ import annotations

from types import ModuleType

from drlnet.algos import dqn
from drlnet.config.names import remedy_for
from drlnet.errors import ConfigError

# An algorithm's module declares columns, item and row (what a table holds), make_net,
# initial_priorities (the actor's) and Learner (its loss and its step), all as dqn's are called.
ALGOS: dict[str, ModuleType] = {"dqn": dqn}


def find_algo(name: str) -> ModuleType:
    """The module of an algorithm; ConfigError for an unknown name."""
    if name not in ALGOS:
        raise ConfigError(f"algo.name = {name!r}: no such algorithm", remedy_for(name, [*ALGOS]))
    return ALGOS[name]


__all__ = ["ALGOS", "find_algo"]
