"""The paper's three comparisons, as tables of 80 columns, as bars and in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from statistics import median
from typing import TextIO

from rich.table import Table
from rich.text import Text

from drlnet.bench.paper.suite import TRAINED, Cell, Results, Slice
from drlnet.bench.paper.workloads import Layout
from drlnet.bench.records import Record, key_of, over
from drlnet.bench.show import console_on, figure, plot_bars, times
from drlnet.plots import Figure

_COLUMNS = {"p50 us": 7, "of rounds": 13, "p99 us": 7}  # widths
_THAN_KERNEL = {"than block": 10, "than busy": 10}
_THAN_LAYOUTS = {"than (b)": 8, "than (a)": 8}
_FLOOR = {"floor": 6}  # where there are any
_TRAINING = (
    "Double DQN steps of a small network on one thread, each with its batch of the base case and "
    "its update: how many a second, on average. Shared core: the replay's thread of (a) on the "
    "learner's core, as on a host that has no other to spare."
)
_OF_FLOOR = (
    '"Floor": each slice of (c), at most 40 ms long, over its round trips by ping plus its bytes '
    "at the bare transport's rate, both measured right before and right behind that slice; median "
    "over all slices. "
)
Rows = Sequence[tuple[Cell, Record]]


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
                ratio = over(record.of_rounds(), records[baseline].of_rounds())
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
    """Reports the in-network layout's batches and cycles."""
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


def show(
    rows: Rows,
    reductions: Sequence[Reduction],
    floors: Sequence[Floor],
    results: Results,
    *,
    file: TextIO,
    network: bool = False,
) -> None:
    """Prints all that was measured: in colour on a terminal, plain elsewhere.

    network: the links are interfaces, not shared memory and loopback.
    """
    console = console_on(file)
    for comparison in COMPARISONS:
        chosen = [(cell, record) for cell, record in rows if cell.comparison == comparison.number]
        if not chosen:
            continue
        console.print(Text(f"\nComparison {comparison.number}: {comparison.title}", style="bold"))
        for header, block in _blocks(chosen, comparison):
            if header:
                console.print(Text(header, style="bold"))
            console.print(_table(block, comparison, reductions, floors, titled=header == ""))
        records = [record for _, record in chosen]
        for line in caption(comparison, records, network=network, floors=bool(floors)):
            console.print(line, style="dim")
    training = _training_table(rows)
    if training is not None:
        console.print(Text("\nWhile the learner trains", style="bold"))
        console.print(training)
        console.print(_TRAINING, style="dim")
    for subject, cause in results.unavailable.items():
        console.print(f"{subject}: not (wholly) measured: {cause}")


def _blocks(rows: Rows, comparison: Comparison) -> Iterator[tuple[str, Rows]]:
    """Rows to compare, each lot under what it has in common; first none, for the headings."""
    yield "", []
    blocks: dict[str, list[tuple[Cell, Record]]] = {}
    for cell, record in rows:
        transport = "" if comparison.number == 1 else f"; {cell.transport}"
        blocks.setdefault(f"{cell.op}: {cell.words}{transport}", []).append((cell, record))
    yield from blocks.items()


def _table(
    rows: Rows,
    comparison: Comparison,
    reductions: Sequence[Reduction],
    floors: Sequence[Floor],
    *,
    titled: bool,
) -> Table:
    first = comparison.number == 1
    shares = {(*key_of(one), one.than): one.share for one in reductions}
    ratios = {key_of(one): one.ratio for one in floors}
    table = Table(
        box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False, show_header=titled
    )
    table.add_column("", no_wrap=True, width=23)
    than = _THAN_KERNEL if first else {**_THAN_LAYOUTS, **(_FLOOR if floors else {})}
    for heading, width in {**_COLUMNS, **than}.items():
        table.add_column(heading, justify="right", no_wrap=True, width=width)
    for cell, record in rows:
        key = key_of(record)
        if first:
            baselines = [f"{cell.layout.value}, udp {poll}" for poll in ("block", "busy")]
        else:
            baselines = [f"{one.value}, {cell.transport}" for one in (Layout.STORE, Layout.LEARNER)]
        label = cell.transport if first else cell.layout.value
        table.add_row(
            Text(f" {label}{'*' if record.oversubscribed else ''}"),
            figure(record.p50_us),
            f"{figure(record.p50_low_us or 0)}-{figure(record.p50_high_us or 0)}",
            figure(record.p99_us),
            *(_share(shares.get((*key, baseline))) for baseline in baselines),
            *(() if first or not floors else (times(ratios[key]) if key in ratios else "",)),
        )
    return table


def _share(value: float | None) -> str:
    """A reduction as a reader expects it: -63% is 63% lower."""
    return "" if value is None else f"{-100 * value:+.0f}%"


def caption(
    comparison: Comparison,
    records: Sequence[Record],
    *,
    network: bool = False,
    floors: bool = True,
) -> list[str]:
    """What a reader has to know beside the figures."""
    low, high = 100 * comparison.low, 100 * comparison.high
    paper = f"The paper (arXiv 2110.13506, on its own 40 GbE cluster): {low:.1f}% to {high:.1f}%."
    if comparison.number == 1:
        relative = (
            '"Than block" and "than busy": p50 relative to kernel UDP in the same round, median '
            "over the rounds: its server and client sleep, and spin, until something arrives; "
            "-50% is half. A round's servers take turns, seconds apart. Store: an actor's append "
            "of one step, acknowledged, the learner at rest; fetch: the learner's read of one "
            f"item by its key. No sampling. {paper}"
        )
    else:
        what = (
            "Store: an actor's append while the learner samples; batch: the learner's prioritized "
            "batch, no update"
            if comparison.number == 2
            else "The learner's wait for a prioritized batch and for its priority update"
        )
        relative = (
            '"Than (b)" and "than (a)": p50 of (c) relative to that layout over the same '
            "transport in the same round, median over the rounds; -50% is half. (a) is the "
            "learner's own memory, beside a server thread on another core, measured right behind "
            "the server of (b) and (c); (b) reads new priorities, draws for itself, reads items, "
            f"writes back; (c) asks the very server of (b). {_OF_FLOOR if floors else ''}{what}. "
            f"{paper}"
        )
    link = (
        "All links are pairs of interfaces through the server's host."
        if network
        else "All processes share one machine: dpdk links are shared memory, udp is loopback; "
        "neither is a network."
    )
    lines = [f"{relative} {link} Of rounds: the least and most of the rounds' medians."]
    if any(record.oversubscribed for record in records):
        lines.append("* fewer cores than threads that poll: they take turns, which is measured too")
    return lines


def _training_table(rows: Rows) -> Table | None:
    """Steps per second of a learner that trains, and the actors' appends meanwhile."""
    training = [(cell, record) for cell, record in rows if cell.comparison == 4]
    if not training:
        return None
    stores = {
        (cell.op.partition(": ")[2], cell.layout, cell.transport): record
        for cell, record in training
    }
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    table.add_column("", no_wrap=True)
    for heading in ("steps/s", "append p50 us", "p99 us"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cell, record in training:
        if not cell.op.startswith(TRAINED):
            continue
        place = cell.op.removeprefix(TRAINED)
        store = stores.get((cell.op, cell.layout, cell.transport))
        table.add_row(
            f" {cell.layout.value}{place}, {cell.transport}",
            f"{record.per_second:.1f}",
            *(("", "") if store is None else (figure(store.p50_us), figure(store.p99_us))),
        )
    return table


def plot(rows: Sequence[tuple[Cell, Record]]) -> Figure:
    """Every record's p50 to p99; a subject is a layout over a transport."""
    shown = [
        replace(record, op=f"{cell.comparison}. {record.op}")
        for cell, record in rows
        if 1 <= cell.comparison <= 3
    ]
    return plot_bars("What access to the replay takes", shown)
