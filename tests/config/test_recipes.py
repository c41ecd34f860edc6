"""The recipes that drlnet ships: which environment and algorithm gets what."""

from __future__ import annotations

from typing import ClassVar

import pytest

from drlnet.algos import NAMES
from drlnet.config import find_recipe, load
from drlnet.nets.settings import ConvSettings


def test_no_recipe_for_an_unknown_environment() -> None:
    assert find_recipe("Unregistered-v0") is None


def test_a_namespace_has_a_recipe() -> None:
    """ale.toml is that of every ALE/... without one of its own."""
    breakout, pong = load("ALE/Breakout-v5"), load("ALE/Pong-v5")
    assert breakout.env.id == "ALE/Breakout-v5" and breakout.run.goal is None
    assert pong.run.goal is not None
    for made in (breakout, pong):
        assert (made.algo.name, made.net.name, made.net.frame_stack) == ("pqn", "compact", 4)
    assert load("MinAtar/Freeway-v1").net.name == "minatar"
    assert load("Own/Breakout-v5").net.name == "mlp"


@pytest.mark.parametrize("algo", [name for name in NAMES if name != "tabular"])
def test_pixels_get_a_network_for_images_whatever_the_algorithm(algo: str) -> None:
    """With a recipe of its own or without; the settings of that network are its defaults then."""
    pong = load("ALE/Pong-v5", flags={"algo.name": algo})
    assert pong.net.name == ("impala" if algo == "btr" else "compact")
    assert pong.net.frame_stack == (1 if algo == "r2d2" else 4)
    if algo != "btr":  # its paper's frames are larger
        assert pong.env == load("ALE/Pong-v5").env
    freeway = load("MinAtar/Freeway-v1", flags={"algo.name": algo})
    assert freeway.net.name == ("impala" if algo == "btr" else "minatar")


def test_the_user_and_the_algorithm_choose_another_network() -> None:
    stacked = load("ALE/Pong-v5", flags={"algo.name": "vtrace", "net.name": "nature"})
    assert stacked.net == ConvSettings(name="nature", frame_stack=4)  # and not compact's channels
    plain = load("ALE/Pong-v5", flags={"algo.name": "vtrace", "net.frame_stack": 1})
    assert (plain.net.name, plain.net.frame_stack) == ("compact", 1)
    own = load("ALE/Pong-v5", flags={"algo.name": "config.test_recipes:Own"})
    assert (own.net.name, own.net.frame_stack) == ("impala", 1)  # it stacks none


class Own:
    """Names its network itself."""

    defaults: ClassVar = {"net.name": "impala"}


def test_a_base_of_another_algorithm_tells_of_the_environment() -> None:
    """ale.dqn.toml takes ale.toml's frames and evaluation; the rest of that is PQN's."""
    pong, dqn = load("ALE/Pong-v5"), load("ALE/Pong-v5", flags={"algo.name": "dqn"})
    assert (dqn.env, dqn.run) == (pong.env, pong.run)
    assert dqn.net.frame_stack == 4 and dqn.net.name == "compact"
    assert dqn.eval.report_episodes == pong.eval.report_episodes
    assert (dqn.replay.sampler, dqn.replay.max_times_sampled) == ("uniform", 0)
    freeway = load("MinAtar/Freeway-v1", flags={"algo.name": "dqn"})
    assert (freeway.net.name, freeway.env.id) == ("minatar", "MinAtar/Freeway-v1")
    assert freeway.run.max_seconds == load("MinAtar/Freeway-v1").run.max_seconds
