"""Whole runs on Dict observations, MultiDiscrete actions and masks: invalid actions would raise."""

from __future__ import annotations

from pathlib import Path

import pytest
from levers import LEVERS, STEPS

from drlnet.config import load
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder
from drlnet.roles.evaluate import evaluate_checkpoint
from drlnet.roles.serial import serial

DQN = [
    *("algo.gamma=0.5", "algo.learning_rate=2e-3", "policy.epsilon_base=1.0"),
    *("actor.envs_per_actor=8", "replay.batch_size=64", "replay.min_size=300"),
    *("run.max_learner_steps=400", "eval.period=400"),
]
PQN = ["algo.name=pqn", "algo.gamma=0.5", "algo.unroll=8", "algo.learning_rate=2e-3"]


@pytest.mark.parametrize(
    "sets",
    [
        DQN,
        [*DQN, "net.frame_stack=2", "algo.double=false"],
        [*PQN, "run.max_learner_steps=40", "eval.period=20", "net.frame_stack=2"],
        ["algo.name=vtrace", "algo.gamma=0.5", "run.max_learner_steps=120", "eval.period=60"],
        [
            *(*DQN, "algo.name=r2d2", "algo.units=32", "algo.length=8", "algo.period=4"),
            *("algo.burn_in=2", "replay.min_size=100", "replay.batch_size=16"),
        ],
    ],
    ids=["dqn", "dqn-stacked", "pqn", "vtrace", "r2d2"],
)
def test_it_learns_to_pull_the_last_valid_lever(sets: list[str], tmp_path: Path) -> None:
    flags = {"run.serial": True, "run.seed": 1, "run.folder": str(tmp_path / "run")}
    config = load(LEVERS, flags=flags, sets=sets)
    folder = RunFolder.create(config)
    serial(config, folder, Stop())
    played = evaluate_checkpoint(config, folder.checkpoint_path, 20)
    assert played.mean > 0.8 * STEPS  # at random among the valid ones: 0.45
