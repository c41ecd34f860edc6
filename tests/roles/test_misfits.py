"""Algorithms that break their contract: which one, in which method, and what to return."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlnet.config import Config, load
from drlnet.errors import ReplayTimeout, UserCodeError
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder
from drlnet.roles.serial import serial

PLUGINS = Path(__file__).resolve().parents[1] / "plugins"
SETS = ["net.hidden_sizes=[8]", "replay.batch_size=16", "replay.min_size=32"]

TOLD = {
    "NoGreedy": ("lacks greedy()", "define what it lacks"),
    "Plain": ("does not derive from drlnet.algos.Algorithm", "derive its class"),
    "UnknownColumns": ("act() returned a dict for a table 'replays'", "its tables are 'replay'"),
    "NoColumns": (
        "act() returned nothing for the table 'replay'",
        "return integers [M] and {table",
    ),
    "ActionsAlone": ("act() returned ndarray [4]", "return integers [M] and {table: {column"),
    "UnknownItems": ("items() returned a Items for a table 'replays'", "its tables are 'replay'"),
    "NoItems": ("items() returned None", "return {table: Items(streams, steps, priorities)}"),
    "FewPriorities": ("streams [4], steps [4], priorities [3] for 'replay'", "of one length"),
    "NoFigures": ("agent() returned a Agent, which lacks figures", "has load, act, items, figures"),
    "ListedFigure": ("figures() returned ndarray [3] as the figure 'epsilons'", "one number"),
    "NotCounted": ("step() left `steps` at 0", "self.steps += 1"),
    "NothingLearned": ("step() returned None", "return Learned({figure: scalar}"),
    "WordyLoss": ("step() returned a str as the figure 'loss'", "return one number"),
    "LongLoss": ("step() returned Tensor [5] as the figure 'loss'", "return one number"),
    "UnknownPriorities": ("priorities [16] for a table 'replays'", "{'replay': [16]}"),
    "FewNewPriorities": ("priorities [15] for a table 'replay'", "{'replay': [16]}"),
    "ArrayParams": ("params() returned a ndarray as 'bias'", "return torch tensors"),
    "FloatActions": ("act() returned ndarray [4] of float32 as actions", "return integers [M] and"),
    "UnknownAction": ("act() returned the action ", "return 4 integers, 0 to 1"),
    "UnknownGreedyAction": ("act() returned the action -", "return 5 integers, 0 to 1"),
    "NegativePriority": ("gave the negative priority -9", "priorities of 0 or more"),
    "NegativeNewPriority": ("gave the negative priority -0.08", "priorities of 0 or more"),
    "TakenFigure": ("step() returned a figure 'env_steps', which drlnet", "by another name"),
    "TimeFigure": ("step() returned a figure 'time', which drlnet", "by another name"),
    "TakenActorFigure": ("figures() returned a figure 'episodes'", "by another name"),
    "NoAct": ("greedy() returned a Player, which lacks act", "an object that has load, act"),
}


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGINS))


def config(name: str, folder: Path) -> Config:
    flags = {
        "run.folder": str(folder / "a"), "run.serial": True, "algo.name": f"misfits:{name}",
        "actor.envs_per_actor": 4, "run.max_learner_steps": 2, "eval.num_envs": 5,
    }  # fmt: skip
    return load("CartPole-v1", flags=flags, sets=SETS)


@pytest.mark.parametrize("name", TOLD)
def test_a_breach_of_the_contract_is_told_as_such(name: str, tmp_path: Path) -> None:
    cause, remedy = TOLD[name]
    made = config(name, tmp_path)
    with pytest.raises(UserCodeError) as raised:
        serial(made, RunFolder.create(made), Stop())
    told = raised.value
    assert cause in told.cause and remedy in told.remedy and "\n" not in told.cause + told.remedy
    unnamed = "ArrayParams", "UnknownAction", "UnknownGreedyAction"
    assert name in unnamed or f"algo.name = 'misfits:{name}'" in told.cause


def test_a_serial_run_whose_items_are_refused_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drlnet.learning.feed._WAIT_S", 0.05)
    made = config("LostItems", tmp_path)
    with pytest.raises(ReplayTimeout, match="fewer items than min_size"):
        serial(made, RunFolder.create(made), Stop())
