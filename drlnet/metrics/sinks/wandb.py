"""Weights & Biases: a run of the project "drlnet", over env_steps.

Where it goes is wandb's own matter: `wandb login`, WANDB_MODE=offline, WANDB_PROJECT and the like.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import wandb

from drlnet.errors import RunFolderError
from drlnet.metrics.run_folder import RunFolder
from drlnet.metrics.sinks import Settings


class WandbRun:
    """One run; its files lie in the run's folder."""

    def __init__(self, folder: RunFolder, settings: Settings) -> None:
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", "drlnet"),
                name=folder.path.name,
                dir=str(folder.path),
                config=dict(settings),
            )
        except wandb.Error as error:
            raise RunFolderError(
                f"wandb: {error}", "`wandb login`, or set WANDB_MODE=offline"
            ) from error
        self._run.define_metric("*", step_metric="progress/env_steps")

    def add(self, scalars: Mapping[str, float], env_steps: int, time_s: float) -> None:
        """Hands the values to wandb's own process."""
        self._run.log({**scalars, "progress/env_steps": env_steps, "_timestamp": time_s})

    def close(self) -> None:
        """Waits until wandb has what was added."""
        self._run.finish()
