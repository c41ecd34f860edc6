"""What networks over images share: channels first, bytes scaled, the faster number format."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch import nn

from drlnet.errors import ConfigError
from drlnet.nets.settings import ConvSettings, ImpalaSettings

_TRIALS = 5


class ImageNet(nn.Module):
    """A network over images: [n, *obs_shape] -> [n, features] float32.

    obs_shape: [H, W], [C, H, W] or [H, W, C] (the channels' axis is the shortest of the two ends),
    or a stack of them [k, ...], whose images become channels. Observations of uint8 are scaled to
    [0, 1]. layers: what follows, from [n, C, H, W] in channels_last memory, as bfloat16 or float32.
    """

    def __init__(
        self,
        settings: ConvSettings | ImpalaSettings,
        obs_shape: Sequence[int],
        make: Callable[[tuple[int, int, int]], nn.Sequential],
    ):
        """make: the layers for images of (channels, height, width). Errors: ConfigError."""
        super().__init__()
        self._permutation, image = _channels_first(obs_shape)
        try:
            layers = make(image)
            with torch.no_grad():
                self.features = layers(torch.zeros(1, *image)).shape[1]
        except (RuntimeError, IndexError, ValueError) as error:
            raise ConfigError(
                f"net.name = {settings.name!r} does not fit observations of {list(obs_shape)}: "
                + str(error).strip().splitlines()[0],
                "use --set net.name=mlp, or kernels and strides that fit (--help-config)",
            ) from error
        self.layers = layers.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        known = {"float32": False, "bfloat16": True, "auto": None}
        self._bfloat16: bool | None = known[settings.precision]

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """obs: [n, *obs_shape] -> [n, features]."""
        images = obs.permute(self._permutation) if self._permutation else obs
        images = images.reshape(len(obs), -1, *images.shape[-2:])
        if self._bfloat16 is None:
            self._bfloat16 = self._faster(images)
        return self._pass(images, self._bfloat16)

    def _pass(self, images: torch.Tensor, bfloat16: bool) -> torch.Tensor:
        dtype = torch.bfloat16 if bfloat16 else torch.float32
        pixels = images.to(dtype, memory_format=torch.channels_last)
        if images.dtype == torch.uint8:
            pixels = pixels * (1.0 / 255.0)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=bfloat16):
            features: torch.Tensor = self.layers(pixels)
        return features.float()

    @torch.no_grad()
    def _faster(self, images: torch.Tensor) -> bool:
        """Measures both formats on these images, in turns; True for bfloat16."""
        best = {True: float("inf"), False: float("inf")}
        for _ in range(_TRIALS):
            for bfloat16 in (True, False):
                begun = time.perf_counter()
                self._pass(images, bfloat16)
                if images.device.type == "cuda":
                    torch.cuda.synchronize(images.device)
                best[bfloat16] = min(best[bfloat16], time.perf_counter() - begun)
        faster = best[True] < best[False]
        chosen = "bfloat16" if faster else "float32"
        print(
            f"a pass of {len(images)} images takes {1e3 * best[False]:.2f} ms in float32, "
            f"{1e3 * best[True]:.2f} ms in bfloat16: {chosen} is used",
            file=sys.stderr,
            flush=True,
        )
        return faster


def _channels_first(shape: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, int, int]]:
    """How to permute [n, *shape] so that height and width come last ((): as it is), and the
    (channels, height, width) of an image then."""
    sizes = list(shape)
    if len(sizes) == 2:
        return (), (1, sizes[0], sizes[1])
    if len(sizes) == 3 and sizes[0] < sizes[2]:
        return (), (sizes[0], sizes[1], sizes[2])
    if len(sizes) == 3:
        return (0, 3, 1, 2), (sizes[2], sizes[0], sizes[1])
    if len(sizes) == 4 and sizes[1] < sizes[3]:
        return (), (sizes[0] * sizes[1], sizes[2], sizes[3])
    if len(sizes) == 4:
        return (0, 1, 4, 2, 3), (sizes[0] * sizes[3], sizes[1], sizes[2])
    raise ConfigError(f"observations of {sizes} are no images", "use --set net.name=mlp for them")
