"""The settings of a process that joins a run: the server's, and what it may say of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drlnet.config import Config, differences, dump, joined, load
from drlnet.errors import TableMismatch

SERVER = "udp://10.0.0.2:7447"


@pytest.fixture
def run() -> Config:
    sets = ["replay.batch_size=32", "net.hidden_sizes=[16]", "actor.num_actors=4"]
    return load("CartPole-v1", flags={"run.folder": "/somewhere/else"}, sets=sets)


def test_all_is_the_runs_but_its_folder(run: Config) -> None:
    assert joined(dump(run), SERVER) == replace(run, run=replace(run.run, folder=None))


def test_a_process_says_what_is_its_own(run: Config) -> None:
    flags = {"actor.num_actors": 2, "server.poll": "block", "run.seed": None}
    ours = joined(dump(run), SERVER, flags=flags, sets=["learner.device=cuda"])
    assert (ours.actor.num_actors, ours.server.poll, ours.learner.device) == (2, "block", "cuda")
    assert ours.replay == run.replay and not [*differences(ours, run)]
    central = dump(load("CartPole-v1", sets=["policy.where=central"]))
    assert joined(central, SERVER, sets=["actor.device=cuda"]).actor.device == "cuda"


@pytest.mark.parametrize(
    ("flags", "sets", "words"),
    [
        ({}, ["replay.batch_size=64"], ["replay.batch_size: 64 here (--set)", "32 in the run at"]),
        ({"algo.name": "pqn"}, [], ["algo.name: 'pqn' here (flag)", "'dqn' in the run at"]),
        ({}, ["env.id=Acrobot-v1"], ["env.id: 'Acrobot-v1' here", "'CartPole-v1' in the run"]),
        ({"replay.sampler": "uniform"}, [], ["replay.sampler: 'uniform' here (flag)"]),
    ],
)
def test_a_contradiction_is_told_by_key_and_side(
    run: Config, flags: dict[str, Any], sets: list[str], words: list[str]
) -> None:
    with pytest.raises(TableMismatch) as raised:
        joined(dump(run), SERVER, flags=flags, sets=sets)
    assert all(word in raised.value.cause for word in [*words, SERVER])
    assert raised.value.remedy


def test_what_is_said_twice_alike_is_no_contradiction(run: Config, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(dump(run))
    assert joined(dump(run), SERVER, file=file, sets=["replay.batch_size=32"]).replay == run.replay
