"""`drlnet bench faults`: what it does to a real run, and what it would find."""

from __future__ import annotations

import io
import json
import os
import tempfile
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest
from system.command import SMALL, finished

from drlnet.bench import faults as suite
from drlnet.bench.faults import Fault, _gone_back, _miscounted, _Run, env_steps
from drlnet.bench.processes import Stopped
from drlnet.bench.records import Records
from drlnet.cli.bench.small import _show_faults
from drlnet.errors import RoleFailed, UnknownKey
from drlnet.launch.signals import Stop
from drlnet.metrics import RunFolder


def fault(role: str, op: str) -> Fault:
    return Fault("faults", role, "CartPole-v1", op, 1.0, 0.0, 2.0)


def test_what_is_lost_is_named(tmp_path: Path) -> None:
    assert env_steps({"table.a.env_steps": 3, "table.b.env_steps": 4, "table.a.rows": 9}) == 7
    result = {"server_restarts": 1, "learner_restarts": 0, "actor_restarts": 2}
    faults = [fault("server", "kill"), *[fault("actor", "kill")] * 2, fault("learner", "stop")]
    assert _miscounted(result, faults) == []
    result["learner_restarts"] = 1  # as it ends with its evaluator
    assert _miscounted(result, [*faults, fault("evaluator", "kill")]) == []
    result["learner_restarts"] = 0
    assert _miscounted(result, faults[1:]) == ["0 kills of the server, and 1 restarts"]
    folder = RunFolder(tmp_path)
    steps = {"role": "server", "time": 1.0, "table.replay.env_steps": 0}
    lines = [{**steps, "table.replay.env_steps": count} for count in (5, 9, 8, 10)]
    folder.metrics_path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert _gone_back(folder) == ["9 steps counted, and 8 later"]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[float | None]:
    """How long a run that is none takes to be back each time; then Ctrl-C comes."""
    left: list[float | None] = []

    def wait_until_back(run: _Run) -> float | None:
        if not left:
            raise Stopped
        return left.pop(0)

    restarts = {f"{role}_restarts": 1 for role in ("server", "learner", "actor")}
    monkeypatch.setattr(_Run, "wait_until_back", wait_until_back)
    monkeypatch.setattr(_Run, "rest", lambda run, seconds: None)
    monkeypatch.setattr(_Run, "pids", lambda run, role: [1])
    monkeypatch.setattr(_Run, "end", lambda run: restarts)
    monkeypatch.setattr(suite, "Supervisor", lambda stop: nullcontext(Mock()))
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return left


def test_a_fault_that_ctrl_c_cuts_short_is_no_loss(
    waits: list[float | None], tmp_path: Path
) -> None:
    waits[:] = [1.0]
    with Stop() as stop:
        measured = suite.measure_faults(stop, "CartPole-v1", faults=1, seed=0)
    assert measured.more["interrupted"] and measured.more["lost"] == []
    assert [*tmp_path.iterdir()] == []


def test_a_run_that_never_learns_leaves_its_folder_by_name(
    waits: list[float | None], tmp_path: Path
) -> None:
    waits[:], notes = [None], list[str]()
    with Stop() as stop, pytest.raises(RoleFailed, match="no learning"):
        suite.measure_faults(stop, "CartPole-v1", faults=1, seed=0, note=notes.append)
    (left,) = tmp_path.iterdir()
    assert notes == [f"its folder is kept: {left}"]


def test_a_run_that_ends_before_an_evaluation_has_no_return_yet() -> None:
    result = {"eval_return_mean": None, "env_steps": 1200, "learner_steps": 3}
    shown = io.StringIO()
    _show_faults(Records(more={"result": result, "lost": []}), shown)
    assert "greedy return none yet after 1,200 steps" in shown.getvalue()


@pytest.mark.slow
def test_a_mistake_shows_before_anything_starts(tmp_path: Path) -> None:
    ended = finished(
        tmp_path, "bench", "faults", "--json", "--set", "actor.num_actor=2", error=UnknownKey
    )
    assert "actor.num_actor" in ended.last_json()["error"]["cause"]


@pytest.mark.exhaustive
def test_a_run_survives_kills_and_stops_of_each_role(tmp_path: Path) -> None:
    small = [*SMALL, "--set", "actor.num_actors=2", "--seed", "6"]
    out = tmp_path / "faults.json"
    args = ("bench", "faults", "--faults", "8", *small, "--out", str(out))
    ended = finished(tmp_path, *args, deadline_s=600.0)
    written = json.loads(out.read_text())
    assert written["lost"] == [] and not written["interrupted"], ended.text()
    done = {(one["subject"], one["op"]) for one in written["records"]}
    assert len(written["records"]) == 8
    assert {"server", "learner", "evaluator"} <= {role for role, _ in done}
    assert all(one["back_s"] < 180 for one in written["records"])
    assert "lost: nothing" in ended.text() and "folder" not in written
    assert written["result"]["eval_episodes"] > 0
