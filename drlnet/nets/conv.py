"""Convolutions and dense layers behind them: Nature's, MinAtar's and other sizes."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from drlnet.nets.fit import left_of
from drlnet.nets.images import ImageNet
from drlnet.nets.mlp import dense_layers
from drlnet.nets.settings import ConvSettings


class Conv(ImageNet):
    """Each convolution without padding, normalised over the whole image where asked for, ReLU."""

    def __init__(self, settings: ConvSettings, obs_shape: Sequence[int]):
        super().__init__(settings, obs_shape, lambda image: _layers(settings, image))


def _layers(settings: ConvSettings, image: tuple[int, int, int]) -> nn.Sequential:
    height, width = left_of(settings, image)
    inputs = image[0]
    layers: list[nn.Module] = []
    for outputs, kernel, stride in zip(
        settings.channels, settings.kernels, settings.strides, strict=True
    ):
        layers.append(nn.Conv2d(inputs, outputs, kernel, stride))
        if settings.norm == "layer":
            layers.append(nn.GroupNorm(1, outputs))
        layers.append(nn.ReLU(inplace=True))  # its input is needed by none
        inputs = outputs
    dense = dense_layers(inputs * height * width, settings.hidden_sizes, settings.norm)
    return nn.Sequential(*layers, nn.Flatten(), *dense)
