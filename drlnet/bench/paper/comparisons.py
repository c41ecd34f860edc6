"""The paper's three comparisons: its ranges, and what our ratios are relative to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from statistics import median

from drlnet.bench.paper.results import Cell, Results, Slice
from drlnet.bench.paper.workloads import Layout
from drlnet.bench.ratios import over
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
    """Shares of a baseline's p50 in the same round by which ours is lower: 0.3 is 30% lower,
    negative is higher. The median of the rounds, and the least and the most of them.

    than: the baseline's subject.
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
            ratio = None
            if baseline in records:
                ratio = over(record.p50_by_round(), records[baseline].p50_by_round())
            if ratio is not None:
                than, shares = records[baseline].subject, astuple(ratio.lower())
                found.append(
                    Reduction(cell.comparison, record.subject, cell.op, cell.words, than, *shares)
                )
    return found


@dataclass(frozen=True)
class Floor:
    """How near (c) is to what its transport allows, each slice to the floor around it.

    ratio: median of all slices. low, high: least and most of the rounds' medians. within: asked of
    cells that are not oversubscribed.
    """

    subject: str
    op: str
    workload: str
    floor_us: float  # median of all slices
    ratio: float
    low: float
    high: float
    within: bool
    oversubscribed: bool
    by_round: dict[int, list[Slice]]


def floors(results: Results, rows: Sequence[tuple[Cell, Record]]) -> list[Floor]:
    """Of the in-network layout's batches and cycles."""
    found = []
    for cell, record in rows:
        by_round = results.slices.get(cell)
        if by_round:
            slices = [one for of_round in by_round.values() for one in of_round]
            ratio = median(one.ratio for one in slices)
            of_rounds = [median(one.ratio for one in of_round) for of_round in by_round.values()]
            found.append(
                Floor(
                    record.subject, cell.op, cell.words, median(one.floor_us for one in slices),
                    ratio, min(of_rounds), max(of_rounds), ratio <= _WITHIN,
                    record.oversubscribed, by_round,
                )
            )  # fmt: skip
    return found
