"""What a shell offers after Tab, asked for as bash does; and that nothing of it waits for torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drlnet.cli.main import app

_ASK = """
import sys
from drlnet.cli.main import main
try:
    main()
except SystemExit:
    print("torch" in sys.modules)
"""


def offered(folder: Path, line: str) -> list[str]:
    """The candidates for the last word of a line, which may be empty."""
    *_, begun = line.split(" ")
    env = {
        **os.environ,
        "_DRLNET_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - bool(begun)),
    }
    ended = subprocess.run(
        [sys.executable, "-c", _ASK],
        cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    *found, torch_loaded = ended.stdout.split()
    assert torch_loaded == "False"
    return found


@pytest.mark.parametrize(
    ("line", "among"),
    [
        ("drlnet ev", "eval"),
        ("drlnet run Cart", "CartPole-v1"),
        ("drlnet run MinAtar/Br", "MinAtar/Breakout-v1"),
        ("drlnet learn CartPole-v1 --set replay.b", "replay.batch_size="),
        ("drlnet run CartPole-v1 --algo pqn --set algo.un", "algo.unroll="),
        ("drlnet run CartPole-v1 --algo no_such --set run.go", "run.goal="),
        ("drlnet run CartPole-v1 --algo d", "dqn"),
        ("drlnet run CartPole-v1 --sampler amper-fr-", "amper-fr-prefix"),
        ("drlnet run CartPole-v1 --transport dpdk:m", "dpdk:memif"),
        ("drlnet help met", "metrics"),
    ],
)
def test_what_comes_along_is_offered(tmp_path: Path, line: str, among: str) -> None:
    assert among in offered(tmp_path, line)


def test_runs_are_offered_the_newest_first(tmp_path: Path) -> None:
    for age, name in ((30, "runs/old"), (10, "runs/new"), (20, "elsewhere/run"), (0, "mine")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.toml").touch()
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    (tmp_path / "runs" / "plots").mkdir()
    assert offered(tmp_path, "drlnet plot ") == ["mine", "runs/new", "runs/old"]
    for command in ("eval", "watch", "stats", "run --resume"):
        assert offered(tmp_path, f"drlnet {command} runs/n") == ["runs/new"]
    assert offered(tmp_path, "drlnet run --resume elsewhere/") == ["elsewhere/run"]
    assert offered(tmp_path, f"drlnet plot {tmp_path}/m") == [f"{tmp_path}/mine"]


def test_help_of_run_fits_two_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, ["run", "--help"]).output
    assert len(shown.splitlines()) <= 2 * 50 - 10  # the prompt and the last command are in view
    panels = ("Training", "Actors", "Server and network", "Settings", "Output")
    places = [shown.index(f"─ {panel} ─") for panel in panels]
    assert places == sorted(places)
