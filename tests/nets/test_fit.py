"""A network of images is refused by its settings alone where it does not take the observations."""

from __future__ import annotations

import pytest

from drlnet.algos import make_algorithm
from drlnet.config import load
from drlnet.envs import EnvSpaces
from drlnet.errors import ConfigError


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


def test_the_smallest_that_fit() -> None:
    made((36, 36), "net.name=nature")
    made((36, 36), "net.name=nature", "net.frame_stack=4")
    made((4, 36, 36, 3), "net.name=nature")
    made((9, 9), "net.name=impala", "net.pool=2")
    made((4,), "net.name=mlp")
