"""Settings of networks and optimizers; apart from them, as those import torch."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Literal

from drlnet.config import AlgoSettings, NetSettings, setting
from drlnet.errors import NotInstalled

Norm = Literal["none", "layer"]
OptimizerName = Literal["adam", "adamw", "radam", "rmsprop", "apollo"]


@dataclass(frozen=True)
class OptimizerSettings(AlgoSettings):
    """What an algorithm with an optimizer adds to its own settings."""

    learning_rate: float = setting(5e-4, "the optimizer's learning rate", above=0)
    learning_rate_end: float | None = setting(
        None, "where the learning rate goes, linearly; none: it stays", low=0
    )
    learning_rate_env_steps: int | None = setting(
        None, "env_steps after which it is there; at the latest as the run's budget ends", low=1
    )
    optimizer: OptimizerName = setting("adam", "the optimizer")
    adam_epsilon: float = setting(1e-8, "the optimizer's epsilon", above=0)
    max_grad_norm: float | None = setting(10.0, "gradients are scaled down to this norm", above=0)

    def require_installed(self) -> None:
        """Raises NotInstalled where the optimizer's package is missing."""
        if self.optimizer == "apollo" and importlib.util.find_spec("apollo_torch") is None:
            raise NotInstalled(
                "algo.optimizer = 'apollo': apollo-torch is not installed",
                "pip install 'drlnet[apollo]'",
            )


@dataclass(frozen=True)
class MlpSettings(NetSettings):
    """A multilayer perceptron."""

    hidden_sizes: tuple[int, ...] = setting((128, 128), "units of each hidden layer", low=1)
    norm: Norm = setting("none", "layer normalisation before each activation")


@dataclass(frozen=True)
class ImageSettings(NetSettings):
    """What every network over images has."""

    norm: Norm = setting("none", "layer normalisation; of a convolution's output over the image")
    input_norm: bool = setting(False, "normalise each observation: mean 0, deviation 1")
    precision: Literal["auto", "float32", "bfloat16"] = setting(
        "auto", "auto: the faster one, measured at the first pass; float32 where run.serial"
    )


@dataclass(frozen=True)
class ConvSettings(ImageSettings):
    """Convolutions over images, then dense layers. The defaults are Nature DQN's (Mnih, 2015)."""

    channels: tuple[int, ...] = setting((32, 64, 64), "channels of each convolution", low=1)
    kernels: tuple[int, ...] = setting((8, 4, 3), "its kernel's size in pixels", low=1)
    strides: tuple[int, ...] = setting((4, 2, 1), "its stride in pixels", low=1)
    hidden_sizes: tuple[int, ...] = setting((512,), "units of each dense layer behind them", low=1)


@dataclass(frozen=True)
class Dqn2013Settings(ConvSettings):
    """The smaller network of the first DQN (Mnih et al., 2013)."""

    channels: tuple[int, ...] = setting((16, 32), "channels of each convolution", low=1)
    kernels: tuple[int, ...] = setting((8, 4), "its kernel's size in pixels", low=1)
    strides: tuple[int, ...] = setting((4, 2), "its stride in pixels", low=1)
    hidden_sizes: tuple[int, ...] = setting((256,), "units of each dense layer behind them", low=1)


@dataclass(frozen=True)
class MinAtarSettings(ConvSettings):
    """MinAtar's own network (Young and Tian, 2019)."""

    channels: tuple[int, ...] = setting((16,), "channels of each convolution", low=1)
    kernels: tuple[int, ...] = setting((3,), "its kernel's size in pixels", low=1)
    strides: tuple[int, ...] = setting((1,), "its stride in pixels", low=1)
    hidden_sizes: tuple[int, ...] = setting((128,), "units of each dense layer behind them", low=1)


@dataclass(frozen=True)
class CompactSettings(ConvSettings):
    """Three convolutions of 3 x 3 for frames of about 42 x 42: Atari on processor cores."""

    channels: tuple[int, ...] = setting((32, 32, 32), "channels of each convolution", low=1)
    kernels: tuple[int, ...] = setting((3, 3, 3), "its kernel's size in pixels", low=1)
    strides: tuple[int, ...] = setting((2, 2, 2), "its stride in pixels", low=1)
    hidden_sizes: tuple[int, ...] = setting((256,), "units of each dense layer behind them", low=1)
    norm: Norm = setting("layer", "layer normalisation; of a convolution's output over the image")


@dataclass(frozen=True)
class ImpalaSettings(ImageSettings):
    """IMPALA's residual network (Espeholt et al., 2018)."""

    channels: tuple[int, ...] = setting((16, 32, 32), "channels of each residual group", low=1)
    width: int = setting(1, "multiplies the channels", low=1)
    hidden_sizes: tuple[int, ...] = setting((256,), "units of each dense layer behind them", low=1)
    spectral_norm: bool = setting(False, "divide the residual blocks' weights by spectral norms")
    pool: int = setting(
        0, "pixels a side that adaptive maximum pooling leaves of the image; 0: all", low=0
    )
