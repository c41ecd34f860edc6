"""The paper's three comparisons: its ranges, and what our ratios are relative to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drlnet.bench.paper.results import Cell, Results
from drlnet.bench.paper.workloads import Layout
from drlnet.bench.records import Record


@dataclass(frozen=True)
class Comparison:
    """Furukawa and Matsutani, arXiv 2110.13506: by how much the paper found latencies lower."""

    number: int
    title: str
    low: float
    high: float


COMPARISONS = (
    Comparison(1, "kernel bypass: access to a shared memory server", 0.327, 0.589),
    Comparison(2, "in-network replay: access to the replay memory", 0.117, 0.281),
    Comparison(3, "prioritized sampling: a batch and its priority update", 0.219, 0.291),
)
_WITHIN = 1.25  # of its floor, (c) is asked to be


@dataclass(frozen=True)
class Reduction:
    """Shares of a baseline's p50 by which ours is lower: 0.3 is 30% lower, negative is higher.

    low, high: the least and the most that the rounds' medians allow. than: the baseline's subject.
    """

    comparison: int
    subject: str
    op: str
    workload: str
    than: str
    share: float
    low: float
    high: float


def reductions(rows: Sequence[tuple[Cell, Record]], block: str, busy: str) -> list[Reduction]:
    """Comparison 1: every transport against kernel UDP, asleep and polled. 2 and 3: (c) against
    (b) and (a) over the same transport."""
    records = dict(rows)
    found = []
    for cell, record in rows:
        baselines: list[Cell] = []
        if cell.comparison == 1:
            others = (name for name in (block, busy) if name != cell.transport)
            baselines = [replace(cell, transport=name) for name in others]
            if cell.transport == block:
                baselines = []
        elif cell.comparison in {2, 3} and cell.layout is Layout.NETWORK:
            baselines = [replace(cell, layout=one) for one in (Layout.STORE, Layout.LEARNER)]
        for baseline in baselines:
            if baseline in records:
                found.append(_reduction(cell, record, records[baseline]))
    return found


def _reduction(cell: Cell, ours: Record, baseline: Record) -> Reduction:
    assert ours.p50_low_us and ours.p50_high_us
    assert baseline.p50_low_us and baseline.p50_high_us
    return Reduction(
        cell.comparison,
        ours.subject,
        cell.op,
        cell.words,
        baseline.subject,
        1 - ours.p50_us / baseline.p50_us,
        1 - ours.p50_high_us / baseline.p50_low_us,
        1 - ours.p50_low_us / baseline.p50_high_us,
    )


@dataclass(frozen=True)
class Floor:
    """How near (c) is to what its transport allows. asked: of cells that are not oversubscribed."""

    subject: str
    op: str
    workload: str
    floor_us: float
    ratio: float
    within: bool
    oversubscribed: bool


def floors(results: Results, rows: Sequence[tuple[Cell, Record]]) -> list[Floor]:
    """Of the in-network layout's batches and cycles."""
    found = []
    for cell, record in rows:
        floor_us = results.floor_us(cell)
        if floor_us is not None:
            ratio = record.p50_us / floor_us
            found.append(
                Floor(
                    record.subject, cell.op, cell.words, floor_us, ratio, ratio <= _WITHIN,
                    record.oversubscribed,
                )
            )  # fmt: skip
    return found
