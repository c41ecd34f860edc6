"""Tables of benchmarks: 80 columns, in which every figure stands whole."""

from __future__ import annotations

import io

import pytest

from drlnet.bench import show as tables
from drlnet.bench.records import Record


def _shown(record: Record) -> list[str]:
    out = io.StringIO()
    derived = {"per s": lambda _: "132,195,300", "ratio": lambda _: "36.91x"}
    tables.show([record], derived, [], file=out)
    return out.getvalue().splitlines()


def test_long_names_cost_no_figures() -> None:
    """They are folded: a figure that is cut short is none."""
    name = "dpdk:virtio-user busy, frames, 3-step and more"
    workload = "atari, 2 inserting, to the end of a line of its own and beyond it"
    lines = _shown(Record("replay", name, workload, "sample 512", 57331.25, 181340.0, 1.0, 1))
    assert max(map(len, lines)) <= 80
    assert "…" not in "".join(lines)
    (figures,) = (line for line in lines if "57331" in line)
    assert figures.split()[-4:] == ["57331", "181340", "132,195,300", "36.91x"]
    assert figures.startswith("  dpdk:virtio-user busy,")
    assert lines[lines.index(figures) + 1].startswith("  ")  # the rest of the name, below it


def test_a_narrow_terminal_shows_names_and_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal to rich
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    record = Record("replay", "udp busy, mirrored", "atari", "sample", 57331.25, 181340.0, 1.0, 1)
    (line,) = (line for line in _shown(record) if "57331" in line)
    assert line.split()[:4] == ["udp", "busy,", "mirrored", "57331"]
