"""Benchmarks that are told to stop before anything was measured."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import pytest
import typer
from system.command import command

from drlnet.bench import show as tables
from drlnet.bench.records import Record, Records
from drlnet.cli.bench.command import end, written
from drlnet.cli.output import Output
from drlnet.launch.signals import Stop

NOTHING = "interrupted: nothing was measured until then"


@pytest.mark.parametrize(
    "args",
    [
        ["sampler", "--sizes", "2^20", "--peers", "none"],
        ["replay", "--works", "small", "--against", "numpy"],
        ["transport", "--transports", "udp"],
        ["paper", "--quick", "--transports", "udp"],
    ],
    ids=lambda args: args[0],
)
def test_ctrl_c_at_once_is_one_line(tmp_path: Path, args: list[str]) -> None:
    with command(tmp_path, "bench", *args) as running:
        running.wait_for("round 1 of")
        assert running.end(signal.SIGINT) == 128 + signal.SIGINT, running.text()
    lines = running.out.decode().splitlines()
    if not list(tmp_path.glob("runs/bench/*")):  # the machine may have been that fast
        assert lines[-1] == NOTHING and "p50" not in running.text(), running.text()
        assert all("round 1 of" in line for line in lines[:-1])


def test_a_table_of_nothing_is_nothing() -> None:
    file = io.StringIO()
    tables.show([], {"ratio": lambda record: ""}, ["What a ratio is."], file=file)
    assert file.getvalue() == ""
    one = Record("transport", "udp block", "64 B", "ping", 1.0, 2.0, 1e6, 1)
    tables.show([one], {}, [], file=file)
    assert file.getvalue().startswith("\n")  # the line before it may be ^C


def test_an_older_file_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "older.json"
    out.write_text("older")
    nothing: Records[Record] = Records(more={"interrupted": True})
    with Stop() as stop, pytest.raises(typer.Exit):
        stop.set()
        with written(Output(as_json=False), nothing, {out: nothing.write}):
            pass
        end(Output(as_json=False), stop, nothing)
    assert out.read_text() == "older"
    assert capsys.readouterr().out.splitlines() == [NOTHING]
