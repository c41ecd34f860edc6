"""Latency over the number of leaves, one curve a subject, and where the caches end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drlnet.bench.bars import plot_bars
from drlnet.bench.records import Record
from drlnet.plots import Axis, Figure, Line, Mark

LEAF_BYTES = 4  # float32: the tree above the leaves adds a fraction to it


def plot(records: Sequence[Record], sizes: Mapping[str, int], caches: Mapping[str, int]) -> Figure:
    """A panel for draws, one for updates; a thin line reaches from each p50 to its p99.

    sizes: leaves by workload; records of others are left out. caches: bytes by name, marked where
    the leaves alone fill them.
    """
    shown = [record for record in records if record.workload in sizes]
    if len(sizes) == 1:
        return plot_bars("Time for a batch", shown)  # nothing to draw a curve over
    ops = list(dict.fromkeys(record.op for record in shown))
    least, most = min(sizes.values()), max(sizes.values())
    marks = [
        Mark(size_bytes / LEAF_BYTES, f"{name} {_bytes(size_bytes)}")
        for name, size_bytes in caches.items()
        if least <= size_bytes / LEAF_BYTES <= most
    ]
    figure = Figure(
        "Time for a batch over the number of leaves: p50 (point) to p99 (line)",
        panels=ops,
        share_y=True,
    )
    for op in ops:
        curves = {}
        for subject in dict.fromkeys(record.subject for record in shown):
            found = [r for r in shown if (r.subject, r.op) == (subject, op)]
            if found:
                curves[subject] = Line(
                    [sizes[r.workload] for r in found],
                    [r.p50_us for r in found],
                    high=[r.p99_us for r in found],
                    spread="bars",
                )
        label = "us" if op == ops[0] else ""
        figure.lines(op, curves, x=Axis("leaves", log=2), y=Axis(label, log=10), marks=marks)
    return figure


def _bytes(count: int) -> str:
    return f"{count / 2**20:g} MiB" if count >= 2**20 else f"{count / 2**10:g} KiB"
