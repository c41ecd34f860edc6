"""The results as a table of 80 columns, and in words what stands in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from drlnet.bench import tables
from drlnet.bench.ratios import Ratio
from drlnet.bench.records import Record, key_of
from drlnet.bench.replay.learner import CYCLE, INSERT, SLICE_S
from drlnet.bench.replay.memory import BY
from drlnet.bench.replay.ours import DEPTH
from drlnet.bench.replay.rounds import SHARE, is_floor
from drlnet.bench.replay.subjects import WORKS


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
            "header, into place) of one buffer; of rows: from random places of a table."
        )
    if any(record.oversubscribed for record in records):
        lines.append("* fewer cores than threads that poll and clients that insert")
    lines.append("Links in shared memory (dpdk:local) join processes of one machine.")
    if included := tables.included(records, includes):
        lines += ["Peers are used from Python, as is everything here:", *included]
    return lines
