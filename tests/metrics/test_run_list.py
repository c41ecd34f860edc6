"""The list of runs: one odd folder is a row of it, and the others are found all the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drlnet.config import load
from drlnet.metrics import RunFolder
from drlnet.metrics.run_list import kept_runs, newest_run

RESULT = {"stopped": "goal", "eval_return_mean": 12.5, "env_steps": 70, "wall_clock_s": 3.5}


def made(path: Path, **result: object) -> RunFolder:
    folder = RunFolder.create(load("Unregistered-v0", flags={"run.folder": str(path)}))
    folder.write_result(json.dumps({**RESULT, **result}))
    return folder


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.toml", ""),
        ("config.toml", "env = 3"),
        ("config.toml", "[env]\nid = 'A-v0'\n[algo]\nname = 'dqn'\n[run]\nseed = 'x'"),
        ("facts.json", "[]"),
        ("facts.json", "{}"),
        ("result.json", "[1]"),
        ("result.json", '{"stopped": "goal"}'),
        ("result.json", '{"stopped": "goal", "wall_clock_s": 1, "env_steps": "many"}'),
        ("result.json", '{"wall_clock_s": 1, "eval_return_mean": [1]}'),
        ("metrics.jsonl", '{"role": "learner", \n'),
        ("metrics.jsonl", '["role": "learner"]\n'),
        ("metrics.jsonl", '{"role": "learner", "time": "noon"}\n'),
        ("live.json", ""),
    ],
)
def test_an_odd_folder_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    good, odd = made(Path("runs/good").absolute()), made(Path("runs/odd").absolute())
    if name == "metrics.jsonl":
        odd.result_path.unlink()
    if name == "live.json":
        odd.live_path.symlink_to(good.result_path)  # opened without following links
    else:
        (odd.path / name).write_text(text, encoding="utf-8")
    runs = {run.path.name: run for run in kept_runs(Path("runs"))}
    assert runs["odd"].ended == "unreadable"
    assert (runs["good"].ended, runs["good"].eval_return, runs["good"].seconds) == (
        "goal",
        12.5,
        3.5,
    )
    assert newest_run(lambda run: run.config_path.is_file(), "of a test").path.name == "good"
    assert good.read_result()["env_steps"] == 70
