"""One typed, frozen tree of settings: TOML < flags < --set, checked before anything starts."""

from drlnet.config.checks import repeatable
from drlnet.config.fields import changes, setting, setting_from
from drlnet.config.joining import differences, joined
from drlnet.config.load import find_recipe, known_keys, load, load_file, load_server, sets_of
from drlnet.config.toml import dump
from drlnet.config.tree import (
    ActorConfig,
    AlgoSettings,
    Config,
    EnvConfig,
    EvalConfig,
    LearnerConfig,
    NetSettings,
    PolicySettings,
    ReplayConfig,
    RunConfig,
    ServerConfig,
)

__all__ = [
    "ActorConfig",
    "AlgoSettings",
    "Config",
    "EnvConfig",
    "EvalConfig",
    "LearnerConfig",
    "NetSettings",
    "PolicySettings",
    "ReplayConfig",
    "RunConfig",
    "ServerConfig",
    "changes",
    "differences",
    "dump",
    "find_recipe",
    "joined",
    "known_keys",
    "load",
    "load_file",
    "load_server",
    "repeatable",
    "sets_of",
    "setting",
    "setting_from",
]
