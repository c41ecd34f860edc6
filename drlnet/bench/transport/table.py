"""The results as a table of 80 columns, and in words what its ratios mean."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drlnet.bench.records import Record
from drlnet.bench.transport.reductions import BLOCK, BUSY, PAPER_RANGE, Reduction, lower_than

_WIDTH = 80
_SMALL_BYTES = ("64 B", "1 KiB", "7 KB frame", "8 KiB")  # above, bytes per second are the measure


def show(
    records: Sequence[Record],
    reductions: Sequence[Reduction],
    *,
    file: TextIO,
    block: str = BLOCK,
    busy: str = BUSY,
    network: bool = False,
) -> None:
    """Prints it: in colour on a terminal, plain elsewhere.

    block, busy: the baselines' names. network: the links are interfaces, not shared memory.
    """
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, width=_WIDTH)
    console.print(_table(records, reductions, block, busy))
    for line in caption(records, reductions, block=block, busy=busy, network=network):
        console.print(line, style="dim")


def _table(
    records: Sequence[Record], reductions: Sequence[Reduction], block: str, busy: str
) -> Table:
    lower = {(r.subject, r.op, r.workload): r for r in reductions}
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    table.add_column("", no_wrap=True, min_width=28)
    for heading in ("p50 us", "p99 us", "p99.9 us", "GB/s", "than block", "than busy"):
        table.add_column(heading, justify="right", no_wrap=True)
    cell: tuple[str, str] | None = None
    for record in records:
        if (record.op, record.workload) != cell:
            cell = (record.op, record.workload)
            table.add_row(Text(f"{record.op}, {record.workload}", style="bold"))
        found = lower.get((record.subject, record.op, record.workload))
        table.add_row(
            Text(f"  {record.subject}{' *' if record.oversubscribed else ''}"),
            _us(record.p50_us),
            _us(record.p99_us),
            _us(record.p999_us),
            "" if record.bytes_per_second is None else f"{record.bytes_per_second / 1e9:.2f}",
            _share(found.than_block if found else None),
            _share(found.than_busy if found else None),
        )
    return table


def _us(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _share(value: float | None) -> str:
    """A reduction as a reader expects it: -63% is 63% lower."""
    return "" if value is None else f"{-100 * value:+.1f}%"


def caption(
    records: Sequence[Record],
    reductions: Sequence[Reduction],
    *,
    block: str = BLOCK,
    busy: str = BUSY,
    network: bool = False,
) -> list[str]:
    """What a reader has to know beside the figures."""
    low, high = PAPER_RANGE
    link = (
        "All links here are the same pair of interfaces."
        if network
        else "Links in shared memory join processes of one machine and are not a network."
    )
    lines = [
        f'"Than block" and "than busy": p50 relative to "{block}" and "{busy}", kernel sockets '
        "whose server and client sleep, and spin, until something arrives; -50% is half. "
        f"The paper (arXiv 2110.13506) reports {-100 * low:.1f}% to {-100 * high:.1f}%, "
        f"DPDK against kernel sockets. {link}",
        *_wake_up(records, reductions, block, busy),
    ]
    if any(record.oversubscribed for record in records):
        lines.append("* fewer cores than threads that poll: they take turns, which is measured too")
    return lines


def _wake_up(
    records: Sequence[Record], reductions: Sequence[Reduction], block: str, busy: str
) -> list[str]:
    """How much of what is gained against blocking sockets is time in which nobody was awake."""
    p50 = {(record.subject, record.op, record.workload): record.p50_us for record in records}
    udp = [
        share
        for (subject, op, payload), polled in p50.items()
        if subject == busy and payload in _SMALL_BYTES
        if (share := lower_than(polled, p50.get((block, op, payload)))) is not None
    ]
    if not udp:
        return []
    line = (
        f"Wake-up time, {block} less {busy}, is {100 * median(udp):.0f}% of a blocking call "
        "(median of the operations up to 8 KiB)"
    )
    shares = [
        reduction.wake_up_share
        for reduction in reductions
        if reduction.workload in _SMALL_BYTES and reduction.wake_up_share is not None
    ]
    if shares:
        line += (
            f" and {100 * min(shares):.0f}% to {100 * max(shares):.0f}% of the reductions against "
            "blocking sockets shown here: polling alone, in the kernel, would have brought that"
        )
    return [line + "."]
