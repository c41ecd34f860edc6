"""How many times as long a subject takes as a baseline does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

from drlnet.bench.ratios import Ratio, over
from drlnet.bench.records import Record, key_of
from drlnet.bench.rounds import COPY
from drlnet.bench.sampler.rounds import REPLY


def ratios(records: Sequence[Record], baseline: str) -> list[Ratio]:
    """By the rounds' p50, of every record but a baseline's own, wherever its baseline was measured.

    The baseline of replies is memcpy, of all else the first subject.
    """
    p50 = {key_of(r): r.p50_by_round() for r in records}
    found = []
    for record in records:
        against = COPY if record.op == REPLY else baseline
        base_us = p50.get((against, record.op, record.workload), {})
        ratio = over(record.p50_by_round(), base_us)
        if record.subject != against and ratio is not None:
            found.append(Ratio(*key_of(record), against, *astuple(ratio)))
    return found
