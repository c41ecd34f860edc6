"""Which observations a network over images takes; apart from networks, as those import torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drlnet.errors import ConfigError
from drlnet.nets.settings import ConvSettings, ImpalaSettings

if TYPE_CHECKING:
    from drlnet.config import Config
    from drlnet.envs import EnvSpaces

Image = tuple[int, int, int]  # channels, height, width


def stacked_shape(shape: tuple[int, ...], frames: int) -> tuple[int, ...]:
    """The shape of a stack of `frames` observations; one alone has no axis for it."""
    return shape if frames == 1 else (frames, *shape)


def channels_first(shape: Sequence[int], frames: int = 1) -> tuple[tuple[int, ...], Image]:
    """How to permute [n, *shape] so that height and width come last ((): as it is), and the
    (channels, height, width) of an image then. frames: as stacked_shape() was told."""
    sizes = list(shape)
    if len(sizes) == 2:
        return (), (1, sizes[0], sizes[1])
    if len(sizes) == 3 and (frames > 1 or _begins_with_channels(sizes)):
        return (), (sizes[0], sizes[1], sizes[2])
    if len(sizes) == 3:
        return (0, 3, 1, 2), (sizes[2], sizes[0], sizes[1])
    if len(sizes) == 4 and _begins_with_channels(sizes[1:]):
        return (), (sizes[0] * sizes[1], sizes[2], sizes[3])
    if len(sizes) == 4:
        return (0, 1, 4, 2, 3), (sizes[0] * sizes[3], sizes[1], sizes[2])
    raise ConfigError(f"observations of {sizes} are not images", "use --set net.name=mlp for them")


def _begins_with_channels(sizes: Sequence[int]) -> bool:
    """Whether an image does, by its three sizes: a square is its pixels; else the shorter end is
    the channels."""
    first, middle, last = sizes
    if (first == middle) != (middle == last):
        return middle == last
    return first < last


def left_of(settings: ConvSettings | ImpalaSettings, image: Image) -> tuple[int, int]:
    """(height, width) behind the convolutions. Raises ConfigError where nothing is left."""
    _, height, width = image
    sizes = [height, width]
    if isinstance(settings, ImpalaSettings):
        for _ in settings.channels:
            sizes = [(size + 1) // 2 for size in sizes]
        if settings.pool > min(sizes):
            raise ConfigError(
                f"net.pool = {settings.pool}, and net.channels leaves {sizes[0]} x {sizes[1]} "
                f"pixels of observations of {list(image)}",
                f"set net.pool to {min(sizes)} or less, or give net.channels fewer groups",
            )
        return sizes[0], sizes[1]
    if not len(settings.channels) == len(settings.kernels) == len(settings.strides):
        raise ConfigError(
            "net.channels, net.kernels and net.strides differ in length",
            "give each convolution one of each",
        )
    for kernel, stride in zip(settings.kernels, settings.strides, strict=True):
        sizes = [(size - kernel) // stride + 1 for size in sizes]
        if min(sizes) < 1:
            raise ConfigError(
                f"net.name = {settings.name!r} does not fit observations of {list(image)}: "
                "nothing is left of the image behind the convolutions",
                "use --set net.name=mlp, or net.kernels and net.strides that fit (--help-config)",
            )
    return sizes[0], sizes[1]


def require_image(config: Config, spaces: EnvSpaces) -> None:
    """Raises ConfigError for a network of images whose observations are none, or too small."""
    settings = config.net
    if not isinstance(settings, ConvSettings | ImpalaSettings):
        return
    cause = f"net.name = {settings.name!r} sees one image, and the observations of {config.env.id}"
    if spaces.num_states is not None:
        raise ConfigError(
            f"{cause} are Discrete({spaces.num_states})",
            "use --algo tabular, or --set net.name=mlp, which sees them one-hot",
        )
    if spaces.leaves:
        leaves = [f"{name} {leaf.dtype}{list(leaf.shape)}" for name, leaf in spaces.leaves.items()]
        raise ConfigError(
            f"{cause} are a Dict: {', '.join(leaves)}",
            "use --set net.name=mlp, which sees them flattened, or wrap the environment so that "
            "the image alone is left",
        )
    most = 4 if settings.frame_stack == 1 else 3  # images that the environment has stacked itself
    if not 2 <= len(spaces.obs_shape) <= most:
        raise ConfigError(
            f"{cause} are {spaces.obs_dtype}{list(spaces.obs_shape)}",
            "use --set net.name=mlp, which sees them flattened",
        )
    frames = settings.frame_stack
    left_of(settings, channels_first(stacked_shape(spaces.obs_shape, frames), frames)[1])
