"""One typed, frozen tree of settings: TOML < flags < --set, checked before anything starts."""

from drlnet.config.load import find_recipe, known_keys, load, load_file
from drlnet.config.toml import dump
from drlnet.config.tree import (
    ActorConfig,
    AlgoConfig,
    Config,
    DqnConfig,
    EnvConfig,
    EvalConfig,
    LearnerConfig,
    ReplayConfig,
    RunConfig,
    ServerConfig,
)

__all__ = [
    "ActorConfig",
    "AlgoConfig",
    "Config",
    "DqnConfig",
    "EnvConfig",
    "EvalConfig",
    "LearnerConfig",
    "ReplayConfig",
    "RunConfig",
    "ServerConfig",
    "dump",
    "find_recipe",
    "known_keys",
    "load",
    "load_file",
]
