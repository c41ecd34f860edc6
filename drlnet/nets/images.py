"""What networks over images share: channels first, bytes scaled, the faster number format."""

from __future__ import annotations

import copy
import math
import sys
import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import torch
from torch import nn

from drlnet.nets.fit import channels_first
from drlnet.nets.settings import ImageSettings

_TRIALS, _TRIAL_IMAGES = 5, 128
_FIRST_TRIALS, _FIRST_IMAGES, _FAR = 2, 8, 4.0  # a form that is that many times slower goes
_RENT = 1.1  # bfloat16 loses precision: it must be faster than float32 by this, and not by chance


class ImageNet(nn.Module):
    """A network over images: [n, *obs_shape] -> [n, features] float32.

    obs_shape: [H, W], [C, H, W] or [H, W, C] (a square is the pixels; else the channels' axis is
    the shorter of the two ends), or a stack of them [k, ...], whose images become channels.
    Observations of uint8 are scaled to [0, 1]; settings.input_norm brings each to mean 0 and
    deviation 1. Where settings.precision is "auto", a processor computes in the number and memory
    format in which a learner's step measures fastest, and a GPU in bfloat16.
    """

    def __init__(
        self,
        settings: ImageSettings,
        obs_shape: Sequence[int],
        make: Callable[[tuple[int, int, int]], nn.Sequential],
    ):
        """make: the layers for images of (channels, height, width). Errors: ConfigError."""
        super().__init__()
        self._permutation, image = channels_first(obs_shape, settings.frame_stack)
        self.layers = make(image)
        with torch.no_grad():
            self.features = self.layers(torch.zeros(1, *image)).shape[1]
        self._auto = settings.precision == "auto"
        self._input_norm = settings.input_norm
        self._form = _Form(settings.precision == "bfloat16", channels_last=True)
        if self._auto:
            self._form = _fastest(self.layers, image)
        self.layers.to(memory_format=self._form.memory)  # type: ignore[call-overload]

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """obs: [n, *obs_shape] -> [n, features]."""
        images = obs.permute(self._permutation) if self._permutation else obs
        images = images.reshape(len(obs), -1, *images.shape[-2:])
        cuda = self._auto and images.device.type == "cuda"
        form = _Form(True, True) if cuda else self._form
        return _pass(self.layers, images, form, self._input_norm)


class _Form(NamedTuple):
    """What a network computes in."""

    bfloat16: bool
    channels_last: bool

    @property
    def memory(self) -> torch.memory_format:
        return torch.channels_last if self.channels_last else torch.contiguous_format

    def __str__(self) -> str:
        number = "bfloat16" if self.bfloat16 else "float32"
        return f"{number}, channels {'last' if self.channels_last else 'first'}"


_known: dict[str, _Form] = {}  # measured once in a process


def _pass(
    layers: nn.Module, images: torch.Tensor, form: _Form, input_norm: bool = False
) -> torch.Tensor:
    dtype = torch.bfloat16 if form.bfloat16 else torch.float32
    # Bytes are exact in bfloat16; what is to be normalised and comes as floats stays so till then.
    pixels = images.to(torch.float32 if input_norm and images.is_floating_point() else dtype)
    if images.dtype == torch.uint8 and not input_norm:
        pixels = pixels * (1.0 / 255.0)
    # Last, and not as they are converted: torch is three times as fast at one after the other.
    pixels = pixels.contiguous(memory_format=form.memory)
    if input_norm:
        # A background that is not black would outweigh all that moves in the first gradients.
        # In the order in which they lie, or they would be copied there and back.
        flat = pixels.permute(0, 2, 3, 1) if form.channels_last else pixels
        flat = nn.functional.layer_norm(flat, flat.shape[1:])
        pixels = (flat.permute(0, 3, 1, 2) if form.channels_last else flat).to(dtype)
    with torch.autocast(images.device.type, torch.bfloat16, enabled=form.bfloat16):
        features: torch.Tensor = layers(pixels)
    return features.float()


def _fastest(layers: nn.Module, image: tuple[int, int, int]) -> _Form:
    """The form in which these layers pass forward and back fastest, on this processor.

    Each form's best time counts, and of it the processor's: the roles of a run start together, and
    measure while they wait for one another's cores.
    """
    key = f"{layers} {image}"
    if key in _known:
        return _known[key]
    images = torch.arange(_TRIAL_IMAGES * math.prod(image), dtype=torch.int32) % 251
    images = images.reshape(_TRIAL_IMAGES, *image).to(torch.uint8)
    trial = copy.deepcopy(layers)
    forms = [_Form(*choice) for choice in product((False, True), repeat=2)]
    best: dict[_Form, float] = {}

    def measure(trials: int, images: torch.Tensor) -> None:
        best.update(dict.fromkeys(forms, math.inf))
        for form in forms * trials:  # in turns: a disturbance meets all of them
            trial.to(memory_format=form.memory)  # type: ignore[call-overload]
            begun = time.process_time()
            torch.autograd.grad(_pass(trial, images, form).sum(), list(trial.parameters()))
            best[form] = min(best[form], time.process_time() - begun)

    # Where a processor has no bfloat16, torch's takes seconds: a few images tell so.
    measure(_FIRST_TRIALS, images[:_FIRST_IMAGES])
    forms = [form for form in forms if best[form] <= _FAR * min(best.values())]
    best.clear()
    measure(_TRIALS, images)
    _known[key] = min(forms, key=lambda form: best[form] * (_RENT if form.bfloat16 else 1.0))
    took = "; ".join(f"{form}: {1e3 * seconds:.1f} ms" for form, seconds in best.items())
    print(
        f"{_TRIAL_IMAGES} images of {list(image)} forward and back take, as {took}. "
        f"The network computes in {_known[key]}",
        file=sys.stderr,
        flush=True,
    )
    return _known[key]
