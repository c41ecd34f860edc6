"""The results as a table of 80 columns, and in words what its ratios mean."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import TextIO

from drlnet.bench import show as tables
from drlnet.bench.records import Record, key_of, lower_than
from drlnet.bench.transport.suite import BLOCK, BUSY, PAPER_RANGE, Reduction

_SMALL_BYTES = ("64 B", "1 KiB", "7 KB frame", "8 KiB")  # above, bytes per second are the measure


def show(
    records: Sequence[Record],
    reductions: Sequence[Reduction],
    *,
    file: TextIO,
    block: str = BLOCK,
    busy: str = BUSY,
    mtu: int | None = None,
) -> None:
    """Prints it: in colour on a terminal, plain elsewhere.

    block, busy: the baselines' names. mtu: of the interfaces that links are, if they are.
    """
    tables.show(
        records,
        {
            "than block": tables.column({key_of(r): _share(r.than_block) for r in reductions}),
            "than busy": tables.column({key_of(r): _share(r.than_busy) for r in reductions}),
        },
        caption(records, reductions, block=block, busy=busy, mtu=mtu),
        file=file,
    )


def _share(value: float | None) -> str:
    """A reduction as a reader expects it: -63% is 63% lower."""
    return "" if value is None else f"{-100 * value:+.1f}%"


def caption(
    records: Sequence[Record],
    reductions: Sequence[Reduction],
    *,
    block: str = BLOCK,
    busy: str = BUSY,
    mtu: int | None = None,
) -> list[str]:
    """What a reader has to know beside the figures."""
    low, high = PAPER_RANGE
    link = (
        f"All links here are the same pair of interfaces, MTU {mtu}: what is longer takes several "
        "frames, which the kernel hands to itself as one, and to DPDK one by one."
        if mtu is not None
        else "Links in shared memory join processes of one machine and are not a network."
    )
    lines = [
        f'"Than block" and "than busy": p50 relative to "{block}" and "{busy}" of the same round '
        "(median over the rounds), kernel sockets whose server and client sleep, and spin, until "
        "something arrives; -50% is half. "
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
    """How much of the gain against blocking sockets is the time that a wake-up takes."""
    p50 = {key_of(record): record.of_rounds() for record in records}
    udp = [
        share.median
        for (subject, op, payload), polled in p50.items()
        if subject == busy and payload in _SMALL_BYTES
        if (share := lower_than(polled, p50.get((block, op, payload), {}))) is not None
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
