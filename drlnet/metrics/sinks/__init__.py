"""Where a run's curves go beside metrics.jsonl: one file for each sink, imported when first used.

A sink is a class that is made of a run's folder and its settings by dotted key, with `add` and
`close` as below. It raises RunFolderError when it cannot write: the run goes on without it.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Protocol, cast

from drlnet.config import Config
from drlnet.config.fields import walk
from drlnet.errors import ConfigError
from drlnet.metrics.run_folder import RunFolder

Settings = Mapping[str, bool | int | float | str]

# Name of the sink: its class here, and the package that it needs.
_SINKS = {
    "tensorboard": ("tensorboard:EventFile", "tensorboardX"),
    "wandb": ("wandb:WandbRun", "wandb"),
    "mlflow": ("mlflow:MlflowRun", "mlflow"),
}


class Sink(Protocol):
    """Threading: one thread at a time."""

    def add(self, scalars: Mapping[str, float], env_steps: int, time_s: float) -> None:
        """Adds values by tag. time_s: seconds since the epoch."""

    def close(self) -> None:
        """Brings what was added to where it is kept."""


def check_installed(name: str) -> None:
    """Raises ConfigError when the sink's package is missing."""
    package = _SINKS[name][1]
    if importlib.util.find_spec(package) is None:
        raise ConfigError(f"run.sinks: {package} is not installed", f"pip install {package}")


def open_sink(name: str, folder: RunFolder, config: Config) -> Sink:
    """A sink of a run, with the run's settings in it. Raises RunFolderError, ConfigError."""
    module, _, kind = _SINKS[name][0].partition(":")
    make = getattr(importlib.import_module(f"{__name__}.{module}"), kind)
    return cast(Sink, make(folder, settings_of(config)))


def settings_of(config: Config) -> Settings:
    """Every setting by its dotted key; lists, tables and none as texts."""
    return {
        key: value if isinstance(value, (bool, int, float, str)) else str(value)
        for key, value, _ in walk(config)
    }
