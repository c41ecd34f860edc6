"""IMPALA's residual network (Espeholt et al., arXiv 1802.01561, figure 3, the deep one)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from drlnet.nets.fit import left_of
from drlnet.nets.images import ImageNet
from drlnet.nets.mlp import dense_layers
from drlnet.nets.settings import ImpalaSettings


class Impala(ImageNet):
    """Groups of a convolution, a maximum over 3 x 3 with stride 2, and two residual blocks.

    Where asked for, each convolution's output is normalised over the whole image.
    """

    def __init__(self, settings: ImpalaSettings, obs_shape: Sequence[int]):
        super().__init__(settings, obs_shape, lambda image: _layers(settings, image))


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x)))), each convolution normalised where norm is "layer"."""

    def __init__(self, channels: int, *, spectral: bool, norm: str = "none"):
        super().__init__()
        convs = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)]
        self.first, self.second = (
            _normalised(spectral_norm(conv) if spectral else conv, channels, norm) for conv in convs
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[n, C, H, W] -> the same."""
        inside: torch.Tensor = self.second(self.first(x.relu()).relu())
        return x + inside


def _normalised(conv: nn.Module, channels: int, norm: str) -> nn.Module:
    return nn.Sequential(conv, nn.GroupNorm(1, channels)) if norm == "layer" else conv


def _layers(settings: ImpalaSettings, image: tuple[int, int, int]) -> nn.Sequential:
    height, width = left_of(settings, image)
    inputs = image[0]
    layers: list[nn.Module] = []
    for channels in settings.channels:
        outputs = channels * settings.width
        conv = nn.Conv2d(inputs, outputs, 3, padding=1)
        layers += [_normalised(conv, outputs, settings.norm), nn.MaxPool2d(3, 2, padding=1)]
        spectral, norm = settings.spectral_norm, settings.norm
        layers += [Residual(outputs, spectral=spectral, norm=norm) for _ in range(2)]
        inputs = outputs
    layers.append(nn.ReLU())
    if settings.pool:
        layers.append(nn.AdaptiveMaxPool2d(settings.pool))
        height = width = settings.pool
    dense = dense_layers(inputs * height * width, settings.hidden_sizes, settings.norm)
    return nn.Sequential(*layers, nn.Flatten(), *dense)
