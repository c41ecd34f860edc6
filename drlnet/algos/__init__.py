"""Algorithms: one file each, and one line here. The contract is in `contract`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drlnet.adders import Items, row_columns
from drlnet.algos.contract import (
    QUEUE_DEFAULTS,
    TABLE,
    Agent,
    Algorithm,
    Columns,
    Held,
    Learned,
    Learner,
    Params,
    Player,
    Priorities,
    TableSettings,
)
from drlnet.algos.learners import NetLearner, TargetNetLearner
from drlnet.algos.players import GreedyQ, NetPlayer
from drlnet.config import AlgoSettings, Config, PolicySettings, plugins, setting, setting_from
from drlnet.errors import ConfigError, UserCodeError
from drlnet.lazy import torch
from drlnet.native import max_request_bytes
from drlnet.nets import make_net

if TYPE_CHECKING:
    from drlnet.envs import EnvSpaces

_QUESTION_HEADER_BYTES = 9  # patience, and what the question is

NAMES = {
    "dqn": "drlnet.algos.dqn:Dqn",  # the default first
    "btr": "drlnet.algos.btr:Btr",
    "medqn": "drlnet.algos.medqn:Medqn",
    "pqn": "drlnet.algos.pqn:Pqn",
    "r2d2": "drlnet.algos.r2d2:R2d2",
    "seer": "drlnet.algos.seer:Seer",
    "tabular": "drlnet.algos.tabular:Tabular",
    "vtrace": "drlnet.algos.vtrace:Vtrace",
}


def make_algorithm(config: Config, spaces: EnvSpaces) -> Algorithm[Any]:
    """The algorithm that config.algo.name chooses.

    Raises ConfigError for an unknown name, UserCodeError for a user's that cannot be made.
    """
    name = config.algo.name
    kind = plugins.find("algos", name)
    if isinstance(kind, type) and not issubclass(kind, Algorithm):
        raise UserCodeError(
            f"algo.name = {name!r} does not derive from drlnet.algos.Algorithm",
            "derive its class from Algorithm (drlnet help algorithms)",
        )
    if lacking := sorted(getattr(kind, "__abstractmethods__", ())):
        raise UserCodeError(
            f"algo.name = {name!r} lacks {', '.join(f'{one}()' for one in lacking)}",
            "define what it lacks in its class (drlnet help algorithms)",
        )
    algorithm: Algorithm[Any] = kind(config, spaces)
    return algorithm


def require_fit(config: Config, *, learns: bool = True) -> EnvSpaces:
    """Refuses what does not fit together, before anything is started; returns the spaces.

    The settings agree with each other already (config.load). Here they meet the environment: its
    spaces, what the algorithm can play of them, what the network sees, and what a learner needs.
    learns: whether a learner is started; actors do without the packages that it alone needs.
    Errors: ConfigError (UnknownEnvironment, UserCodeError), NotInstalled.
    """
    from drlnet.envs import find_spaces

    if learns:
        config.algo.require_installed()
    spaces = find_spaces(config.env)
    make_algorithm(config, spaces)
    if config.policy.where != "actor":
        _require_question(config, spaces)
    if ":" in config.net.name:  # a user's own, with which torch has been imported
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # a process that has started others cannot be forked
        try:
            make_net(config, spaces)
        finally:
            torch.set_num_threads(threads)
    return spaces


def _require_question(config: Config, spaces: EnvSpaces) -> None:
    """Refuses more environments in an actor than one question to the inference role can hold."""
    envs = config.actor.envs_per_actor
    row_bytes = sum(column.row_bytes for column in row_columns(spaces).values())
    most = (max_request_bytes - _QUESTION_HEADER_BYTES) // row_bytes
    if envs > most:
        raise ConfigError(
            f"actor.envs_per_actor = {envs} with policy.where = {config.policy.where}: an actor "
            f"asks with {envs} rows of {row_bytes:,} bytes, "
            f"and a request holds {max_request_bytes:,}",
            f"lower actor.envs_per_actor to {most}, and raise actor.num_actors"
            if most
            else "set policy.where to actor",
        )


__all__ = [
    "NAMES",
    "QUEUE_DEFAULTS",
    "TABLE",
    "Agent",
    "AlgoSettings",
    "Algorithm",
    "Columns",
    "GreedyQ",
    "Held",
    "Items",
    "Learned",
    "Learner",
    "NetLearner",
    "NetPlayer",
    "Params",
    "Player",
    "PolicySettings",
    "Priorities",
    "TableSettings",
    "TargetNetLearner",
    "make_algorithm",
    "require_fit",
    "setting",
    "setting_from",
]
