"""How a record compares to another of the same invocation: round by round.

A host may move its virtual machines' cores at any time, and what passes bytes between them then
takes two or three times as long, everything alike. Within a round both sides see much the same;
medians over all rounds may come from different states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class OfRounds:
    """A figure that each round has: median, least and most."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(figures: Sequence[float]) -> OfRounds | None:
        """None of no rounds."""
        if not figures:
            return None
        return OfRounds(median(figures), min(figures), max(figures))

    def lower(self) -> OfRounds:
        """Of ratios: the shares by which they are below 1."""
        return OfRounds(1 - self.median, 1 - self.high, 1 - self.low)


def over(ours: Mapping[int, float], baseline: Mapping[int, float]) -> OfRounds | None:
    """Ours over the baseline's of the same round, by its number. None where no round has both."""
    both = [number for number in ours if number in baseline]
    return OfRounds.of([ours[number] / baseline[number] for number in both])


@dataclass(frozen=True)
class Ratio:
    """A record's time over its baseline's, in the same workload: 4.0 takes four times as long.

    The median of the rounds' ratios, the least and the most. Which times (p50, or the mean) and
    which baseline is for the suite to say.
    """

    subject: str
    op: str
    workload: str
    baseline: str
    ratio: float
    low: float
    high: float
