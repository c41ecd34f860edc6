"""The paper's three comparisons, as tables of 80 columns, as bars and in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, TextIO

from drlnet.bench import show as tables
from drlnet.bench.paper.roles import CYCLE, PING, Layout
from drlnet.bench.records import Record, key_of, lower_than
from drlnet.plots import Figure

Column = Callable[[Record], str]


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


def comparison_of(record: Record) -> int:
    """Its number; 0 for pings, which stand beside all."""
    if not record.subject.startswith(Layout.MEMORY.value):
        return 3 if record.op == CYCLE else 2
    return 0 if record.op == PING else 1


def reductions(records: Sequence[Record], block: str, busy: str) -> list[Reduction]:
    """Comparison 1: every transport against kernel UDP, asleep and polled. 2 and 3: (c) against
    (b) and (a) over the same transport."""
    measured = {key_of(record): record for record in records}
    found = []
    for record in records:
        number = comparison_of(record)
        layout, _, transport = record.subject.partition(", ")
        baselines: list[str] = []
        if number == 1 and transport != block:
            baselines = [f"{layout}, {name}" for name in (block, busy) if name != transport]
        elif layout == Layout.NETWORK.value:
            baselines = [f"{one.value}, {transport}" for one in (Layout.STORE, Layout.LEARNER)]
        for than in baselines:
            baseline = measured.get((than, record.op, record.workload))
            share = lower_than(record.of_rounds(), baseline.of_rounds()) if baseline else None
            if share is not None:
                found.append(Reduction(number, *key_of(record), than, *astuple(share)))
    return found


def show(
    records: Sequence[Record],
    reductions: Sequence[Reduction],
    *,
    file: TextIO,
    network: bool = False,
) -> None:
    """Prints a table for each comparison: in colour on a terminal, plain elsewhere.

    network: the links are interfaces, not shared memory and loopback.
    """
    shares = {(*key_of(one), one.than): f"{-100 * one.share:+.0f}%" for one in reductions}
    for comparison in COMPARISONS:
        chosen = [one for one in records if comparison_of(one) == comparison.number]
        named = {_named(record, comparison.number): record for record in chosen}

        def than(layout: Layout | None, transport: str = "", named: Any = named) -> Column:
            """Relative to that layout, or to that transport."""

            def share(shown: Record) -> str:
                own_layout, _, own = named[shown].subject.partition(", ")
                baseline = f"{layout.value if layout else own_layout}, {transport or own}"
                return shares.get((*key_of(named[shown]), baseline), "")

            return share

        columns: dict[str, Column] = {"of rounds": _of_rounds}
        if comparison.number == 1:
            columns |= {f"than {poll}": than(None, f"udp {poll}") for poll in ("block", "busy")}
        else:
            columns |= {"than (b)": than(Layout.STORE), "than (a)": than(Layout.LEARNER)}
        if chosen:
            title = f"\nComparison {comparison.number}: {comparison.title}"
            tables.console_on(file).print(title, style="bold")
        lines = [caption(comparison, network=network)]
        tables.show([*named], columns, lines, file=file, without=("p99.9 us", "GB/s"))


def _named(record: Record, comparison: int) -> Record:
    """As a table shows it: its subject is what is compared there, the rest stands above."""
    layout, _, transport = record.subject.partition(", ")
    if comparison == 1:
        return replace(record, subject=transport)
    return replace(record, subject=layout, op=f"{transport}: {record.op}")


def _of_rounds(record: Record) -> str:
    return f"{tables.figure(record.p50_low_us or 0)}-{tables.figure(record.p50_high_us or 0)}"


def caption(comparison: Comparison, *, network: bool = False) -> str:
    """What a reader has to know beside the figures."""
    low, high = 100 * comparison.low, 100 * comparison.high
    since_due = (
        "Since due: from when an actor's schedule has an append due, its own waking up included; "
        "a late append puts off none behind it."
    )
    what = {
        1: '"Than block" and "than busy": than kernel UDP whose server and client sleep, and spin, '
        "until something arrives. Store: an actor's append of one step, acknowledged, the learner "
        f"at rest; fetch: the learner's read of one item by its key. No sampling. {since_due}",
        2: "Store: an actor's append while the learner samples; batch: the learner's prioritized "
        f"batch, no update. {since_due}",
        3: "The learner's wait for a prioritized batch and for its priority update.",
    }[comparison.number]
    if comparison.number > 1:
        what = (
            '"Than (b)" and "than (a)": (c) relative to that layout over the same transport. (a) '
            "is the learner's own memory, beside a server thread on another core, measured right "
            "behind the server of (b) and (c); (b) reads new priorities, draws for itself, reads "
            f"items, writes back; (c) asks the very server of (b). {what}"
        )
    link = (
        "All links are pairs of interfaces through the server's host."
        if network
        else "All processes share one machine: dpdk links are shared memory, udp is loopback; "
        "neither is a network."
    )
    return (
        f"{what} Shares: of p50 in the same round, median over the rounds; -50% is half. The paper "
        f"(arXiv 2110.13506, on its own 40 GbE cluster): {low:.1f}% to {high:.1f}%. {link} Of "
        "rounds: the least and most of the rounds' medians."
    )


def plot(records: Sequence[Record]) -> Figure:
    """Every record's p50 to p99; a subject is a layout over a transport."""
    numbers = {record: comparison_of(record) for record in records}
    shown = [replace(record, op=f"{n}. {record.op}") for record, n in numbers.items() if n]
    return tables.plot_bars("What access to the replay takes", shown)
