"""Ranks: two processes step along one gradient, and what cannot be averaged is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from drlnet.config import load
from drlnet.envs import find_spaces
from drlnet.errors import ConfigError, RoleFailed
from drlnet.launch.forks import Fork, forked
from drlnet.launch.signals import Stop
from drlnet.learning import ranks
from drlnet.learning.ranks import Place, meeting, meeting_place, place_told, require_ranks

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"
DEADLINE_S = 120


Cases = list[tuple[str, int, list[str]]]
# Losses that are means over the items, whatever they are.
MEANS: Cases = [
    ("dqn", 3, ["algo.max_grad_norm=0.1", "algo.optimizer=adamw", "algo.learning_rate_end=0.0"]),
    ("medqn", 3, ["algo.states=real"]),
    ("btr", 3, ["algo.quantiles=0"]),
]
OTHERS: Cases = [(name, 5, []) for name in ("btr", "medqn", "r2d2", "vtrace", "qr_dqn:QrDqn")]
# LAST rows are no steps: the halves have not the same number of minibatches.
UNEQUAL: Cases = [("pqn", 8, ["algo.unroll=8", "algo.minibatch_size=4", "algo.epochs=1"])]


def learned(folder: Path, count: int, cases: Cases) -> list[list[dict[str, Any]]]:
    """What each process of so many has learned in each case."""
    script = Path(__file__).with_name("ranking.py")
    subprocess.run(
        [sys.executable, script, folder, str(count), json.dumps(cases)],
        cwd=folder, check=True, timeout=DEADLINE_S,
        env={**os.environ, "PYTHONPATH": str(PLUGINS)},
    )  # fmt: skip
    return [torch.load(folder / f"{rank}.pt") for rank in range(count)]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What two ranks have learned: MEANS, OTHERS, UNEQUAL."""
    folder = tmp_path_factory.mktemp("two")
    first, second = learned(folder, 2, [*MEANS, *OTHERS, *UNEQUAL])
    return list(zip(first, second, strict=True))


@pytest.mark.slow
def test_the_mean_gradient_of_two_halves_is_that_of_the_whole(two: Any, tmp_path: Path) -> None:
    (alone,) = learned(tmp_path, 1, MEANS)
    for one, (first, second) in zip(alone, two[: len(MEANS)], strict=True):
        assert len(one["gradients"]) >= 3
        for whole, mean, same in zip(
            one["gradients"], first["gradients"], second["gradients"], strict=True
        ):
            assert whole.abs().max() > 1e-3 and torch.equal(mean, same)
            torch.testing.assert_close(mean, whole, atol=1e-6, rtol=1e-5)
        halves = zip(first["priorities"], second["priorities"], strict=True)
        for whole, parts in zip(one["priorities"], halves, strict=True):
            torch.testing.assert_close(torch.cat(parts), whole, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_params_stay_equal_bit_by_bit(two: Any) -> None:
    for first, second in two:
        assert first["params"] == second["params"]
        assert not torch.equal(first["gradients"][0], first["gradients"][-1])
        halves = zip(first["priorities"], second["priorities"], strict=True)
        assert not any(torch.equal(*parts) for parts in halves)


@pytest.mark.slow
def test_where_rank_0_is_over_as_it_begins_all_are(tmp_path: Path) -> None:
    (first,), (second,) = learned(tmp_path, 2, [("dqn", 0, [])])  # see ranking.py
    assert first["params"] == second["params"] and not first["gradients"]


@pytest.mark.slow
def test_a_rank_with_fewer_gradient_steps_takes_those_of_the_other(two: Any) -> None:
    first, second = two[-1]
    assert first["updates"] != second["updates"]
    assert len(first["gradients"]) == len(second["gradients"])


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        (["run.serial=true", "run.max_learner_steps=9"], "with run.serial"),
        (["replay.batch_size=33"], "cannot share out replay.batch_size = 33"),
        (["learner.device=cuda:1"], "each needs a GPU of its own"),
    ],
)
def test_settings_that_several_processes_cannot_have(sets: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        load("CartPole-v1", sets=["learner.processes=2", *sets])
    assert raised.value.remedy


@pytest.mark.parametrize(
    ("env", "name"),
    [("FrozenLake-v1", "tabular"), ("CartPole-v1", "actor_critic:ActorCritic")],
)
def test_a_learner_without_gradients_is_refused(
    env: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(PLUGINS)
    config = load(env, flags={"algo.name": name}, sets=["learner.processes=2"])
    with pytest.raises(ConfigError, match="no gradients to average") as raised:
        require_ranks(config, find_spaces(config.env))
    assert "NetLearner" in raised.value.remedy
    require_ranks(load("CartPole-v1", sets=["learner.processes=2"]), find_spaces(config.env))


def test_a_learner_that_chooses_its_tables_is_refused() -> None:
    sets = ["learner.processes=2", "algo.freeze_learner_steps=100"]
    config = load("CartPole-v1", flags={"algo.name": "seer"}, sets=sets)
    with pytest.raises(ConfigError, match="'seer' would choose by itself which tables"):
        require_ranks(config, find_spaces(config.env))


def test_the_environment_tells_a_rank_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    two = load("CartPole-v1", sets=["learner.processes=2"])
    assert place_told(two) is None
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert place_told(two) == Place(1, 2, 0)
    assert place_told(load("CartPole-v1")) is None  # it learns alone, whatever that says
    with pytest.raises(ConfigError, match="RANK=1 of WORLD_SIZE=2"):
        place_told(load("CartPole-v1", sets=["learner.processes=4"]))


@pytest.mark.parametrize(("name", "value"), [("RANK", "one"), ("RANK", "2"), ("LOCAL_RANK", "-1")])
def test_a_place_that_is_none_of_the_ranks_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for variable, told in {"RANK": "1", "WORLD_SIZE": "2", name: value}.items():
        monkeypatch.setenv(variable, told)
    with pytest.raises(ConfigError, match=f"{name}='{value}', which is none") as raised:
        place_told(load("CartPole-v1", sets=["learner.processes=2"]))
    assert f"correct {name}" in raised.value.remedy


def test_ranks_that_do_not_come_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with (
        pytest.raises(RoleFailed, match="2 ranks of the learner did not come together"),
        meeting(Place(1, 2), lambda: False),
    ):
        pass


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rank 0 has a second for its meeting; nothing of it outlives the test."""
    monkeypatch.setattr(ranks, "_MEETING_S", 1.0)
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "lo")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", "0")
    yield
    for thread in threading.enumerate():
        if thread.name == "meeting":
            thread.join()


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize(("stopped", "raised"), [(True, KeyboardInterrupt), (False, RoleFailed)])
@pytest.mark.usefixtures("alone")
def test_a_rank_that_nobody_joins_ends_in_time_or_once_it_is_stopped(
    here: bool, stopped: bool, raised: type[BaseException]
) -> None:
    place = Place(0, 2, 0, meeting_place() if here else None)
    with pytest.raises(raised), meeting(place, lambda: stopped):
        pass


@pytest.mark.usefixtures("alone")
def test_a_rank_that_dies_before_they_have_met_ends_the_wait_for_it(
    tmp_path: Path,
) -> None:
    def dies(_stop: Stop) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    place = Place(0, 2, 0, meeting_place())
    with (
        Stop() as stop,
        pytest.raises(RoleFailed, match="rank-1 was killed by SIGKILL"),
        forked([Fork("rank-1", tmp_path / "rank-1.log", dies, told=True)], stop),
        meeting(place, stop.is_set),
    ):
        pass
