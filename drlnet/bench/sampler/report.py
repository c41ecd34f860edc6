"""The results as a table and a plot, and in words what each call includes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from drlnet.bench import show as tables
from drlnet.bench.engine import COPY
from drlnet.bench.measure import kernel_names
from drlnet.bench.records import Ratio, Record, key_of, ratios_of
from drlnet.bench.sampler.suite import REPLY
from drlnet.plots import Axis, Figure, Line, Mark

LEAF_BYTES = 4  # float32: the tree above the leaves adds a fraction to it


def ratios(records: Sequence[Record], baseline: str) -> list[Ratio]:
    """By the rounds' p50, of every record but a baseline's own, wherever its baseline was measured.

    The baseline of replies is memcpy, of all else the first subject.
    """

    def against(record: Record) -> tuple[str, str, str]:
        return COPY if record.op == REPLY else baseline, record.op, record.workload

    return ratios_of(records, against)


def show(
    records: Sequence[Record],
    found: Sequence[Ratio],
    includes: Mapping[str, str],
    *,
    file: TextIO,
) -> None:
    """Prints it: in colour on a terminal, plain elsewhere. includes: what a peer's calls do."""
    ratios = {key_of(r): tables.times(r.ratio) for r in found}
    columns = {"ratio": tables.column(ratios)}
    tables.show(records, columns, caption(records, found, includes), file=file)


def caption(
    records: Sequence[Record], found: Sequence[Ratio], includes: Mapping[str, str]
) -> list[str]:
    """What a reader has to know beside the figures."""
    lines = []
    baselines = dict.fromkeys(f'"{ratio.baseline}"' for ratio in found)
    if baselines:
        lines.append(
            f"Ratio: p50 relative to {' or '.join(baselines)} in the same operation, workload and "
            "round (median over the rounds); 4x takes four times as long. One core, every leaf "
            "live, random leaves updated."
        )
    if any(record.subject not in {*includes, COPY} for record in records):
        lines.append(
            "Samplers of drlnet are called in native code, as its server calls them; weights are "
            "the learner's. Uniform and fifo keep no priorities. Where a name says no kernel, "
            f"prioritized runs the fastest that this CPU has: {kernel_names()[0]}."
        )
    if included := tables.included(records, includes):
        lines.append(
            "Peers are called from Python, as they are used; indices, weights and priorities are "
            "in their own types. What a call includes:"
        )
        lines += included
    if any(record.subject == COPY for record in records):
        lines.append(
            "Sample reply: the server's whole answer without a network: draw, gather windows, "
            "write the bytes. Memcpy: as many bytes, but in one piece, out of as much memory; a "
            "reply of small rows is bound by its random places, not by its bytes."
        )
    return lines


def plot(records: Sequence[Record], sizes: Mapping[str, int], caches: Mapping[str, int]) -> Figure:
    """A panel for draws, one for updates; a thin line reaches from each p50 to its p99.

    sizes: leaves by workload; records of others are left out. caches: bytes by name, marked where
    the leaves alone fill them.
    """
    shown = [record for record in records if record.workload in sizes]
    if len(sizes) == 1:
        return tables.plot_bars("Time for a batch", shown)  # nothing to draw a curve over
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
