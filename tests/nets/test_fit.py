"""A network of images is refused by its settings alone where it does not take the observations."""

from __future__ import annotations

import pytest

from drlnet.algos import make_algorithm
from drlnet.config import load
from drlnet.envs import EnvSpaces
from drlnet.errors import ConfigError
from drlnet.nets.fit import channels_first


def made(shape: tuple[int, ...], *sets: str) -> None:
    """Makes the algorithm, as each command does before it starts anything."""
    config = load("CartPole-v1", flags={"algo.name": "dqn"}, sets=sets)
    make_algorithm(config, EnvSpaces(shape, "uint8", 2, 0))


@pytest.mark.parametrize(
    ("shape", "sets", "cause"),
    [
        ((4,), ["net.name=nature"], "the observations of CartPole-v1 are uint8[4]"),
        ((4,), ["net.name=compact", "net.frame_stack=4"], "are uint8[4]"),
        ((2, 2, 84, 84), ["net.name=nature", "net.frame_stack=4"], "are uint8[2, 2, 84, 84]"),
        ((10, 10, 4), ["net.name=nature"], "'nature' does not fit observations of [4, 10, 10]"),
        ((35, 84), ["net.name=nature"], "nothing is left of the image"),
        ((8, 8), ["net.name=impala", "net.pool=2"], "net.pool = 2, and net.channels leaves 1 x 1"),
        ((84, 84), ["net.name=nature", "net.strides=[4,2]"], "differ in length"),
    ],
)
def test_what_does_not_fit(shape: tuple[int, ...], sets: list[str], cause: str) -> None:
    with pytest.raises(ConfigError) as info:
        made(shape, *sets)
    assert cause in info.value.cause and info.value.remedy


@pytest.mark.parametrize(
    ("shape", "frames", "image"),
    [
        ((8, 8, 111), 1, (111, 8, 8)),
        ((111, 8, 8), 1, (111, 8, 8)),
        ((2, 8, 8, 111), 1, (222, 8, 8)),
        ((2, 111, 8, 8), 2, (222, 8, 8)),
        ((12, 9, 8), 12, (12, 9, 8)),  # more frames than pixels a side
        ((8, 8, 8), 8, (8, 8, 8)),
        ((10, 10, 10), 1, (10, 10, 10)),
        ((9, 9), 1, (1, 9, 9)),
    ],
)
def test_a_square_is_the_pixels(
    shape: tuple[int, ...], frames: int, image: tuple[int, int, int]
) -> None:
    permutation, found = channels_first(shape, frames)
    sizes = [(1, *shape)[axis] for axis in permutation or range(len(shape) + 1)]
    assert found == image and tuple(sizes[-2:]) == image[1:]
    assert bool(permutation) == (shape[-1] == 111 or (shape[-1] == 10 and frames == 1))


def test_the_smallest_that_fit() -> None:
    made((36, 36), "net.name=nature")
    made((36, 36), "net.name=nature", "net.frame_stack=4")
    made((4, 36, 36, 3), "net.name=nature")
    made((9, 9), "net.name=impala", "net.pool=2")
    made((4,), "net.name=mlp")
