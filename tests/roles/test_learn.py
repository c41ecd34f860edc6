"""The learner on the oracle: what it publishes, when it ends, what its checkpoint holds."""

from __future__ import annotations

import math
import os
import signal
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle import OracleClient
from torch import nn

from drlnet.algos import TABLE, make_algorithm
from drlnet.config import Config, load
from drlnet.envs import find_spaces
from drlnet.errors import (
    BadPriority,
    CheckpointMismatch,
    ReplayTimeout,
    RunFolderError,
    SessionLost,
)
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder
from drlnet.nets.params import read_metadata
from drlnet.roles import gate, learn
from drlnet.roles.evaluate import Evaluation
from drlnet.roles.learn import Learning
from drlnet.roles.tables import open_tables

SETS = ["replay.batch_size=16", "learner.publish_period=4", "eval.period=5"]


def config(folder: Path, *sets: str, serial: bool = True) -> Config:
    """serial: the learner evaluates its params itself, at its period."""
    flags = {"run.folder": str(folder), "run.seed": 1000, "run.serial": serial or None}
    if not any("max_learner_steps" in text for text in sets):
        flags["run.max_learner_steps"] = 10_000
    return load("CartPole-v1", flags=flags, sets=[*SETS, *sets])


def learning(made: Config, stop: Stop | None = None) -> tuple[Learning, OracleClient]:
    client = OracleClient()
    folder = RunFolder.create(made)
    begun = Learning(made, client, folder, stop or Stop())  # type: ignore[arg-type]
    fill(begun.feed.tables[TABLE])
    return begun, client


def fill(table: Any) -> None:
    writer = table.writer(1)
    steps = []
    for t in range(40):
        row = {
            "obs": np.full((1, 4), t / 40),
            "action": np.array([t % 2]),
            "reward": np.ones(1),
            "discount": np.ones(1),
        }
        steps.append(writer.append(row, np.array([t == 0]), np.array([False]))[0])
    writer.add_items(np.zeros(40, np.int64), np.array(steps), np.ones(40))


def steps(begun: Learning, count: int) -> list[np.ndarray]:
    updates: list[np.ndarray] = []
    table = begun.feed.tables[TABLE]

    def update(keys: Any, priorities: Any) -> None:
        assert len(keys) == len(priorities) == 16 and np.isfinite(priorities).all()
        updates.append(priorities)

    table.update_priorities = update  # type: ignore[method-assign, assignment]
    for _ in range(count):
        if begun.feed.due:
            begun.feed.draw()
        begun.step()
        if begun.finished(False):
            break
    return updates


def fixed_returns(monkeypatch: pytest.MonkeyPatch, means: dict[str, list[float]]) -> None:
    def evaluate(_config: Config, _params: Any, episodes: int, purpose: str, _: Any) -> Evaluation:
        return Evaluation([means[purpose].pop(0)] * episodes, 0, episodes)

    monkeypatch.setattr(gate, "evaluate", evaluate)


def test_publishes_at_its_period(tmp_path: Path) -> None:
    begun, client = learning(config(tmp_path / "r", "eval.period=1000"))
    assert client.params is not None and client.params[0] == 1  # before the first batch
    assert len(steps(begun, 9)) == 9
    assert client.params[0] == 3
    assert read_metadata(client.params[1])["learner_steps"] == "8"


def test_budget_ends_with_a_last_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_returns(monkeypatch, {"gate": [20.0, 30.0]})
    begun, _ = learning(config(tmp_path / "r", "run.max_learner_steps=7"))
    assert len(steps(begun, 100)) == 7
    result = begun.close()
    assert (result.stopped, result.learner_steps, result.env_steps) == ("budget", 7, 40)
    assert result.gate_return_mean == 30.0


def test_interrupted(tmp_path: Path) -> None:
    begun, _ = learning(config(tmp_path / "r"))
    assert begun.finished(True)
    result = begun.close()
    assert result.stopped == "interrupted" and np.isnan(result.gate_return_mean)
    assert not (tmp_path / "r" / "checkpoint.safetensors").is_file()


def test_interrupted_behind_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, client = learning(config(tmp_path / "r"))
    steps(begun, 3)

    def report(values: Any) -> None:
        raise ReplayTimeout("waited for report: no answer from the server", "look at it")

    monkeypatch.setattr(client, "report", report)
    assert begun.finished(True)
    result = begun.close()
    assert (result.stopped, result.learner_steps) == ("interrupted", 3)
    assert (tmp_path / "r" / "checkpoint.safetensors").is_file()
    assert client.timeout_s < 5  # it is not waited for


def test_interrupted_during_a_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(*_: Any) -> Evaluation:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("went on")

    monkeypatch.setattr(gate, "evaluate", evaluate)
    with Stop() as stop:
        begun, _ = learning(config(tmp_path / "r"), stop)
        steps(begun, 5)
        assert begun.finished(stop.is_set())
        result = begun.close()
    assert (result.stopped, result.learner_steps) == ("interrupted", 5)
    kept = read_metadata((tmp_path / "r" / "checkpoint.safetensors").read_bytes())
    assert kept["learner_steps"] == "5"


def test_goal_wants_a_second_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_returns(monkeypatch, {"gate": [20.0, 500.0, 499.0], "confirm": [400.0, 498.0]})
    begun, _ = learning(config(tmp_path / "r"))
    assert len(steps(begun, 100)) == 15
    result = begun.close()
    assert (result.stopped, result.gate_return_mean) == ("goal", 498.0)


def test_gate_keeps_the_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = config(tmp_path / "r")
    fixed_returns(monkeypatch, {"gate": [300.0, 200.0, 496.0, 490.0], "confirm": [350.0]})
    looked = gate.Gate(made, Stop())
    kept = []
    for value in range(4):
        net = nn.Linear(1, 1)
        nn.init.constant_(net.weight, value)
        assert not looked.evaluate(net.state_dict(), value)
        assert looked.best is not None
        kept.append(float(looked.best.params["weight"]))
    # 490 in one look does not replace 350 in two: the first look is what luck can pass.
    assert kept == [0, 0, 2, 2]
    assert looked.best is not None
    assert (looked.best.mean, looked.best.learner_steps) == (350.0, 2)


def test_what_was_best_outlives_a_second_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the checkpoint and what the evaluator has kept since, a run goes on from the better."""
    fixed_returns(monkeypatch, {"gate": [50.0]})
    begun, _ = learning(config(tmp_path / "r", "run.max_learner_steps=5"))
    steps(begun, 5)
    begun.close()
    run, architecture = RunFolder(tmp_path / "r"), begun.algorithm.architecture
    for mean, best in ((20.0, 50.0), (400.0, 400.0)):
        kept = gate.Best(begun._learner.params(), 7, mean, False)
        gate.write_best(run.best_path, kept, architecture, {})
        RunFolder.reopen(config(tmp_path / "r", "run.resume=true"))
        found = gate.read_best(run, architecture)
        assert found is not None and found.mean == best


def test_any_look_is_better_than_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed_returns(monkeypatch, {"gate": [3.0]})
    unknown = gate.Best(nn.Linear(1, 1).state_dict(), 1, math.nan, False)
    looking = gate.Gate(config(tmp_path / "r"), Stop(), unknown)
    looking.evaluate(nn.Linear(1, 1).state_dict(), 2)
    assert looking.best is not None and looking.best.mean == 3.0


def test_params_that_diverged_do_not_take_the_place_of_good_ones(tmp_path: Path) -> None:
    begun, _ = learning(config(tmp_path / "r", "learner.save_period_s=1e-9"))
    steps(begun, 4)
    run = RunFolder(tmp_path / "r")
    good = run.learner_path.read_bytes()
    begun.keep(sound=False)
    assert run.learner_path.read_bytes() == good and not run.checkpoint_path.exists()
    begun.keep()
    assert run.checkpoint_path.is_file()


@pytest.mark.parametrize("place", ["r", "moved"])
def test_a_learner_that_goes_on_knows_its_steps_at_once(tmp_path: Path, place: str) -> None:
    first, client = learning(config(tmp_path / "r", "run.max_learner_steps=10"))
    steps(first, 10)
    first.close()
    (tmp_path / "r").rename(tmp_path / place)
    on = config(tmp_path / place, "run.max_learner_steps=20", "run.resume=true")
    second = Learning(on, client, RunFolder.reopen(on), Stop())  # type: ignore[arg-type]
    assert second._env_steps == first._env_steps == 40 and second._env_steps_before == 0
    assert client.params is not None
    facts = read_metadata(client.params[1])
    assert (facts["env_steps"], facts["streams"]) == ("40", "32")


class LosingClient(OracleClient):
    """Its server is gone once the learner reports."""

    stop: Stop | None = None  # is then asked for, too

    def __enter__(self) -> LosingClient:
        return self

    def __exit__(self, *raised: object) -> None:
        pass

    def report(self, values: Any) -> None:
        if self.stop is not None:
            self.stop.set()
        raise SessionLost("the server was restarted", "start the clients again")


@pytest.mark.parametrize("all_end", [False, True])
def test_what_was_learned_outlives_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_end: bool
) -> None:
    made = config(tmp_path / "r", "learner.report_interval_s=1e-9", serial=False)
    client = LosingClient()
    algorithm = make_algorithm(made, find_spaces(made.env))
    fill(open_tables(client, algorithm)[TABLE])  # type: ignore[arg-type]
    monkeypatch.setattr(learn, "reach", lambda *_, **__: client)
    lost = nullcontext() if all_end else pytest.raises(SessionLost)
    with lost, Stop() as stop:
        client.stop = stop if all_end else None
        result = learn.learn(made, client.address, RunFolder.create(made), stop, print)
        assert (result.stopped, result.learner_steps) == ("interrupted", 1)
    kept = read_metadata((tmp_path / "r" / "checkpoint.safetensors").read_bytes())
    assert kept["learner_steps"] == "1"


@pytest.mark.parametrize(("error", "kept"), [(BadPriority("nan"), False), (ValueError(), True)])
def test_a_state_that_diverged_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, kept: bool
) -> None:
    made, client = config(tmp_path / "r", serial=False), LosingClient()
    algorithm = make_algorithm(made, find_spaces(made.env))
    fill(open_tables(client, algorithm)[TABLE])  # type: ignore[arg-type]

    def fails(begun: Learning, _stop: Stop) -> None:
        steps(begun, 3)
        raise error

    monkeypatch.setattr(learn, "reach", lambda *_, **__: client)
    monkeypatch.setattr(learn, "_learn", fails)
    with pytest.raises(type(error)), Stop() as stop:
        learn.learn(made, client.address, RunFolder.create(made), stop, print)
    assert RunFolder(tmp_path / "r").learner_path.is_file() is kept


def test_reports_and_records(tmp_path: Path) -> None:
    begun, client = learning(config(tmp_path / "r", "learner.report_interval_s=1e-9"))
    steps(begun, 3)
    assert client.reports[-1]["learner_steps"] == 3
    last, of_server = list(RunFolder(tmp_path / "r").readings())[-2:]
    assert (of_server["role"], of_server["client.learner.learner_steps"]) == ("server", 3)
    assert last["role"] == "learner" and last["learner_steps"] == 3 and last["loss"] >= 0
    assert last["eval_return"] is None  # NaN is no JSON


def test_stages_add_up_to_the_time_since_start(tmp_path: Path) -> None:
    before = time.perf_counter()
    begun, client = learning(config(tmp_path / "r", "learner.report_interval_s=1e9"))
    made = time.perf_counter()
    steps(begun, 10)
    least = time.perf_counter() - made
    begun._report()
    most = time.perf_counter() - before
    said = client.reports[-1]
    stages = {name: value for name, value in said.items() if name.startswith("stage.")}
    names = ("sample", "learn", "update", "publish", "evaluate", "other")
    assert set(stages) == {f"stage.{name}_s" for name in names}
    assert all(seconds > 0 for seconds in stages.values())
    assert least <= sum(stages.values()) <= most
    assert 10 / most <= said["learner_steps_per_s"] <= 10 / least
    waited_s = stages["stage.sample_s"]
    assert waited_s / most <= said["sample_wait_share"] <= waited_s / least
    assert said["batch_size"] == 16 and said["pid"] == os.getpid()


def test_diverged_params_are_named(tmp_path: Path) -> None:
    begun, _ = learning(config(tmp_path / "r"))
    nn.init.constant_(next(iter(begun._learner.params().values())), np.nan)

    def update(_keys: Any, priorities: Any) -> None:
        assert np.isnan(priorities).all()
        raise BadPriority("priority 0 is nan")

    table = begun.feed.tables[TABLE]
    table.update_priorities = update  # type: ignore[method-assign, assignment]
    begun.feed.draw()
    with pytest.raises(BadPriority, match="params have diverged") as info:
        begun.step()
    assert "learning rate" in info.value.remedy


def test_same_seed_same_params(tmp_path: Path) -> None:
    blobs = []
    for name in ("a", "b"):
        torch.manual_seed(len(name))
        begun, client = learning(config(tmp_path / name / "r", "eval.period=1000"))
        steps(begun, 8)
        assert client.params is not None
        blobs.append(client.params[1])
    assert blobs[0] == blobs[1]


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Params, target, optimizer, counters and generator; and what was best stays the best."""
    made = config(tmp_path, "run.max_learner_steps=10", "eval.gate_episodes=4", "eval.num_envs=4")
    first, _ = learning(made)
    steps(first, 10)
    assert first.finished(False)
    best = first.close()
    on = config(tmp_path, "run.max_learner_steps=20", "run.resume=true")
    folder = RunFolder.reopen(on)
    second = Learning(on, OracleClient(), folder, Stop())  # type: ignore[arg-type]
    ours, theirs = second._learner.state_dict(), first._learner.state_dict()
    assert ours["steps"] == 10
    assert second._rates.read(steps=10) == {"steps": 0.0}
    for part in ("online", "target"):
        for name, tensor in theirs[part].items():
            assert torch.equal(ours[part][name], tensor)
    for name, moments in theirs["optimizer"].items():
        assert all(map(torch.equal, ours["optimizer"][name], moments))
    fill(second.feed.tables[TABLE])
    before = first._env_steps
    assert len(steps(second, 100)) == 10
    assert second.finished(False) and second._learner.steps == 20
    assert second._env_steps == before + 40 == 80
    assert second.close().gate_return_mean >= best.gate_return_mean


@pytest.mark.parametrize(
    ("sets", "spent"),
    [
        (["run.max_learner_steps=20"], [0.0, 0.05, 0.1]),
        (["run.max_learner_steps=20", "run.max_env_steps=1600"], [0.0, 0.05, 0.1]),
        (["run.max_learner_steps=200", "run.max_env_steps=1600"], [0.0, 0.025, 0.025]),
    ],
)
def test_a_batch_tells_how_much_of_the_budget_is_spent(
    tmp_path: Path, sets: list[str], spent: list[float]
) -> None:
    begun, _ = learning(config(tmp_path, *sets))
    told = []
    for _ in spent:
        begun.feed.draw()
        begun.step()
        told.append(begun.feed.batches[TABLE].spent)
    assert told == pytest.approx(spent)


def test_a_clock_spends_the_budget_too(tmp_path: Path) -> None:
    begun, _ = learning(config(tmp_path, "run.max_seconds=0.01", serial=False))
    begun._run._began_s = time.time() - 1  # type: ignore[attr-defined]
    begun.feed.draw()
    begun.step()
    assert begun.feed.batches[TABLE].spent > 1 and begun.finished(False)


def test_a_state_that_does_not_fit_is_told(tmp_path: Path) -> None:
    first, _ = learning(config(tmp_path, "run.max_learner_steps=1"))
    steps(first, 1)
    first.close()
    other = config(tmp_path, "run.resume=true", "net.hidden_sizes=[8]")
    with pytest.raises(CheckpointMismatch, match="but the config makes"):
        Learning(other, OracleClient(), RunFolder(tmp_path), Stop())  # type: ignore[arg-type]
    with pytest.raises(RunFolderError, match=r"learner.safetensors is missing"):
        (tmp_path / "learner.safetensors").unlink()
        RunFolder.reopen(other)
