"""What the figures mean beside each other, as a table of 80 columns and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Literal, TextIO

from drlnet.bench import show as tables
from drlnet.bench.engine import COPY
from drlnet.bench.records import Key, Ratio, Record, key_of, over, ratios_of
from drlnet.bench.replay.learner import CYCLE, INSERT, PREFETCHED, SAMPLE, SLICE_S, bare
from drlnet.bench.replay.memory import BY
from drlnet.bench.replay.ours import DEPTH
from drlnet.bench.replay.suite import BULK, SHARE, WORKS, is_floor, named


def ratios(records: Sequence[Record], baseline: str) -> list[Ratio]:
    """Rounds' mean times over the baseline's; of a cycle, over its one with batches prefetched.

    A peer cannot draw ahead of the update before (Reverb does so anyway): both are a learner's
    step as it is usually taken.
    """

    def against(record: Record) -> Key | None:
        op = PREFETCHED if record.op == CYCLE else record.op
        return None if is_floor(record.subject) else (baseline, op, record.workload)

    return ratios_of(records, against, "mean_us")


def shares(records: Sequence[Record]) -> list[Ratio]:
    """The floor's time over ours, by round: 0.8 is 80% of what the floor does meanwhile.

    The floor of kernel UDP is a bare transfer, of shared memory and of insertions memcpy. By p50,
    which one delay of a few large transfers does not bend; of insertions, whose work waits behind
    the calls, by the mean.
    """
    found_at = {key_of(r): r for r in records}
    found = []
    for record in records:
        subject, op = _floor_of(record) or ("", "")
        floor = found_at.get((subject, op, record.workload.split(",")[0]))
        if floor is None:
            continue
        figure: Literal["mean_us", "p50_us"] = "mean_us" if op == INSERT else "p50_us"
        share = over(floor.of_rounds(figure), record.of_rounds(figure))
        if share is not None:
            found.append(Ratio(*key_of(record), subject, *astuple(share)))
    return found


def _floor_of(record: Record) -> tuple[str, str] | None:
    """(subject, op)"""
    link, _, form = record.subject.partition(", ")
    transport, _, poll = link.partition(" ")
    if poll not in {"busy", "block"}:
        return None
    if record.op == INSERT:
        return named(COPY, form), INSERT
    if record.op in BULK:
        return named(bare(poll) if transport == "udp" else COPY, form), SAMPLE
    return None


def show(
    records: Sequence[Record],
    ratios: Sequence[Ratio],
    shares: Sequence[Ratio],
    includes: Mapping[str, str],
    *,
    file: TextIO,
) -> None:
    """Prints it: in colour on a terminal, plain elsewhere. includes: what each peer is."""
    slower = {key_of(r): tables.times(r.ratio) for r in ratios}
    of_floor = {key_of(r): f"{100 * r.ratio:.0f}%" for r in shares}
    tables.show(
        records,
        {
            "per s": _per_second,
            "ratio": tables.column(slower),
            "of floor": tables.column(of_floor),
        },
        caption(records, ratios, includes),
        file=file,
        without=("p99.9 us", "GB/s"),
    )


def _per_second(record: Record) -> str:
    """Calls; of insertions, transitions."""
    return f"{record.per_second * (BY if record.op == INSERT else 1):,.0f}"


def caption(
    records: Sequence[Record], ratios: Sequence[Ratio], includes: Mapping[str, str]
) -> list[str]:
    """What a reader has to know beside the figures."""
    lines = []
    works = [(name, WORKS[name]) for name in WORKS if name in {r.workload for r in records}]
    for baseline in dict.fromkeys(ratio.baseline for ratio in ratios):
        lines.append(
            f'Ratio: mean time relative to "{baseline}" in the same operation, workload and round '
            f'(median over the rounds); 4x takes four times as long. Of "{CYCLE}", '
            f"relative to that with {DEPTH} batches requested ahead, as a learner takes them "
            "where it can."
        )
    lines.append(
        f"Per s: calls, and transitions of insertions by {BY}, whose last call waits until all are "
        "stored. Sampled rows are in the process's memory, with weights; an update is answered, "
        "except when prefetched."
    )
    if any("inserting" in record.workload for record in records):
        lines.append(
            f"Inserting: processes beside the learner, each at {SHARE:.0%} of the rate at which "
            f"the same subject inserts by {BY} alone, in slices of {SLICE_S * 1e3:g} ms; two "
            "together at most "
            + " and ".join(f"{work.beside_per_second:,.0f}/s ({name})" for name, work in works)
            + "; into drlnet through blocking UDP sockets, from any core but the one on which its "
            "server polls."
        )
    if any(is_floor(record.subject) for record in records):
        lines.append(
            "Of floor: the p50 of the floor that moves the same bytes, measured at the end of the "
            "same round, over its own (of insertions the mean), median over the rounds: for "
            "dpdk:local and insertions a memcpy, for udp a bare transfer (64 KB datagrams, no "
            "header, into place) of one buffer."
        )
    lines.append("Links in shared memory (dpdk:local) join processes of one machine.")
    if included := tables.included(records, includes):
        lines += ["Peers are used from Python, as is everything here:", *included]
    return lines
