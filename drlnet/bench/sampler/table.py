"""The results as a table, and in words what each call includes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from drlnet import native
from drlnet.bench import tables
from drlnet.bench.ratios import Ratio
from drlnet.bench.records import Record, key_of
from drlnet.bench.rounds import COPY


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
            "Samplers of drlnet are called in native code, as its server calls them. Draw: slots "
            "and probabilities (weights are the learner's). Update: the exponent and the "
            "tree; uniform and fifo keep no priorities, theirs does nothing. Where a name says no "
            f"kernel, prioritized runs the fastest that this CPU has: {native.kernel_names()[0]}."
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
