"""What the figures of one invocation mean beside each other: to ours, and to the floors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from drlnet.bench.ratios import Ratio, over
from drlnet.bench.records import Record, key_of
from drlnet.bench.replay.floors import bare, without_rows
from drlnet.bench.replay.learner import CYCLE, INSERT, PREFETCHED, SAMPLE
from drlnet.bench.replay.rounds import BULK, is_floor
from drlnet.bench.replay.subjects import named
from drlnet.bench.rounds import COPY


def ratios(records: Sequence[Record], baseline: str) -> list[Ratio]:
    """Rounds' mean times over the baseline's; of a cycle, over its one with batches prefetched.

    A peer cannot draw ahead of the update before (Reverb does so anyway): both are a learner's
    step as it is usually taken.
    """
    means = {key_of(r): r.mean_by_round() for r in records}
    found = []
    for record in records:
        op = PREFETCHED if record.op == CYCLE else record.op
        ratio = over(record.mean_by_round(), means.get((baseline, op, record.workload), {}))
        own = record.subject == baseline and record.op == op
        if ratio is not None and not own and not is_floor(record.subject):
            found.append(Ratio(*key_of(record), baseline, *astuple(ratio)))
    return found


def shares(records: Sequence[Record]) -> list[Ratio]:
    """Of ours, the floor's time over theirs, by round: 0.8 is 80% of what the floor does meanwhile.

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
        share = (
            over(floor.mean_by_round(), record.mean_by_round())
            if op == INSERT
            else over(floor.p50_by_round(), record.p50_by_round())
        )
        if share is not None:
            found.append(Ratio(*key_of(record), subject, *astuple(share)))
    return found


def _floor_of(record: Record) -> tuple[str, str] | None:
    """(subject, op)"""
    if (bare_one := without_rows(record.subject)) is not None:
        return bare_one, SAMPLE
    link, _, form = record.subject.partition(", ")
    transport, _, poll = link.partition(" ")
    if poll not in {"busy", "block"}:
        return None
    if record.op == INSERT:
        return named(COPY, form), INSERT
    if record.op in BULK:
        return named(bare(poll) if transport == "udp" else COPY, form), SAMPLE
    return None
