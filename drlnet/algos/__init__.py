"""Algorithms: one file each, and one line here. The contract is in `contract`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drlnet.adders import Items
from drlnet.algos.contract import (
    QUEUE_DEFAULTS,
    TABLE,
    Agent,
    Algorithm,
    Columns,
    Learned,
    Learner,
    Params,
    Player,
    TableSettings,
)
from drlnet.algos.learners import NetLearner, TargetNetLearner
from drlnet.algos.players import GreedyQ, NetPlayer
from drlnet.config import AlgoSettings, Config, PolicySettings, plugins, setting, setting_from

if TYPE_CHECKING:
    from drlnet.envs import EnvSpaces

NAMES = {
    "dqn": "drlnet.algos.dqn:Dqn",  # the default first
    "btr": "drlnet.algos.btr:Btr",
    "medqn": "drlnet.algos.medqn:Medqn",
    "pqn": "drlnet.algos.pqn:Pqn",
    "r2d2": "drlnet.algos.r2d2:R2d2",
    "tabular": "drlnet.algos.tabular:Tabular",
    "vtrace": "drlnet.algos.vtrace:Vtrace",
}


def make_algorithm(config: Config, spaces: EnvSpaces) -> Algorithm[Any]:
    """The algorithm that config.algo.name chooses. Raises ConfigError for an unknown name."""
    algorithm: Algorithm[Any] = plugins.find("algos", config.algo.name)(config, spaces)
    return algorithm


__all__ = [
    "NAMES",
    "QUEUE_DEFAULTS",
    "TABLE",
    "Agent",
    "AlgoSettings",
    "Algorithm",
    "Columns",
    "GreedyQ",
    "Items",
    "Learned",
    "Learner",
    "NetLearner",
    "NetPlayer",
    "Params",
    "Player",
    "PolicySettings",
    "TableSettings",
    "TargetNetLearner",
    "make_algorithm",
    "setting",
    "setting_from",
]
