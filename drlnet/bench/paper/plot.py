"""The comparisons as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drlnet.bench.bars import plot_bars
from drlnet.bench.paper.results import Cell
from drlnet.bench.records import Record
from drlnet.plots import Figure

_COMPARISONS = (1, 2, 3)


def plot(rows: Sequence[tuple[Cell, Record]]) -> Figure:
    """Every record's p50 to p99; a subject is a layout over a transport."""
    shown = [
        replace(record, op=f"{cell.comparison}. {record.op}")
        for cell, record in rows
        if cell.comparison in _COMPARISONS
    ]
    return plot_bars("What access to the replay takes", shown)
