"""Settings of the networks; apart from them, as these import torch."""

from __future__ import annotations

from dataclasses import dataclass

from drlnet.config import NetSettings, setting


@dataclass(frozen=True)
class MlpSettings(NetSettings):
    """A multilayer perceptron."""

    hidden_sizes: tuple[int, ...] = setting((128, 128), "units of each hidden layer", low=1)
