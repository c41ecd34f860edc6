"""How a record compares to another of the same invocation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """A record's time over its baseline's, in the same workload: 4.0 takes four times as long.

    Which times (p50, or the mean) and which baseline is for the suite to say.
    """

    subject: str
    op: str
    workload: str
    baseline: str
    ratio: float
