"""Each operation's time as bars, a group for each workload."""

from __future__ import annotations

from collections.abc import Sequence

from drlnet.bench.bars import plot_bars
from drlnet.bench.records import Record
from drlnet.plots import Figure


def plot(records: Sequence[Record]) -> Figure:
    """Every record's p50; a thin line reaches to its p99."""
    return plot_bars("Replay memories: time of a call", records)
