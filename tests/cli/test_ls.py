"""`drlnet ls` in a terminal: each run's folder in one piece, whatever the width."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from drlnet.cli import ls
from drlnet.cli.output import Output
from drlnet.metrics.run_list import KeptRun

NAMES = ["runs/CartPole-v1-20261123-120000-3", "runs/sweep-x-20261123-120000/n_step=1-0"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_folders_stay_whole(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    output = Output(as_json=False)
    output.notes = Terminal()
    runs = [
        KeptRun(Path(name), 0.0, "interrupted", "drlnet/CartPolePositions-v1", "r2d2", 3, 500.0)
        for name in NAMES
    ]
    ls._show(runs, output)
    _, *lines = output.notes.getvalue().splitlines()
    assert [line.split()[-1] for line in lines] == NAMES
    assert ("CartPolePositions" in lines[0]) == (columns == 200), "narrow terminals do without"
    if columns == 80:
        assert len(lines[0]) <= 80
