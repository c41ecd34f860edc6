"""Medians as bars on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence

from drlnet.bench.records import Record
from drlnet.plots import Axis, Bar, Figure


def plot_bars(title: str, records: Sequence[Record]) -> Figure:
    """Every record's p50 as a bar, operation by operation; a thin line reaches to its p99.

    As in the tables, a * is behind what had fewer cores than threads that poll.
    """
    groups: dict[str, dict[str, Bar]] = {}
    for record in records:
        cell = groups.setdefault(f"{record.op}, {record.workload}", {})
        star = " *" if record.oversubscribed else ""
        cell[record.subject] = Bar(record.p50_us, high=record.p99_us, behind=star)
    crowded = any(record.oversubscribed for record in records)
    stars = "; * fewer cores than threads that poll" if crowded else ""
    figure = Figure(f"{title}: p50 (bar) to p99 (line){stars}")
    figure.bars("", groups, axis=Axis("us", log=10))
    return figure
