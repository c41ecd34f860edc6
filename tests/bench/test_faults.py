"""`drlnet bench faults`: what it does to a real run, and what it would find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from system.command import SMALL, finished

from drlnet.bench.faults import Fault, _gone_back, _miscounted, env_steps
from drlnet.errors import UnknownKey
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


@pytest.mark.slow
def test_a_mistake_shows_before_anything_starts(tmp_path: Path) -> None:
    ended = finished(tmp_path, "bench", "faults", "--json", "--set", "actor.num_actor=2")
    assert ended.popen.returncode == UnknownKey.exit_code, ended.text()
    assert "actor.num_actor" in ended.last_json()["error"]["cause"]


@pytest.mark.exhaustive
def test_a_run_survives_kills_and_stops_of_each_role(tmp_path: Path) -> None:
    small = [*SMALL, "--set", "actor.num_actors=2", "--seed", "6"]
    out = tmp_path / "faults.json"
    args = ("bench", "faults", "--faults", "8", *small, "--out", str(out))
    ended = finished(tmp_path, *args, deadline_s=600.0)
    assert ended.popen.returncode == 0, ended.text()
    written = json.loads(out.read_text())
    assert written["lost"] == [] and not written["interrupted"], ended.text()
    done = {(one["subject"], one["op"]) for one in written["records"]}
    assert len(written["records"]) == 8
    assert {"server", "learner", "evaluator"} <= {role for role, _ in done}
    assert all(one["back_s"] < 180 for one in written["records"])
    assert "lost: nothing" in ended.text() and "folder" not in written
    assert written["result"]["eval_episodes"] > 0
