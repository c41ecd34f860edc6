"""The benchmark of watching, small: that it measures what its records say."""

from __future__ import annotations

import pytest

from drlnet.bench.watch import ALONE, WATCHED, measure_watching
from drlnet.launch.signals import Stop


def test_both_sides_are_measured_in_turn() -> None:
    seen: list[float] = []
    with Stop() as stop:

        def report(alone: float, watched: float) -> None:
            seen.append(watched / alone)

        measured = measure_watching(stop, pairs=2, seconds=0.2, interval_s=0.1, report=report)
    assert [record.subject for record in measured.records] == [ALONE, WATCHED]
    assert all(record.rounds == 2 and record.per_second > 0 for record in measured.records)
    assert measured.more["ratios"] == seen
    assert measured.more["ratio"] == pytest.approx(sum(seen) / 2)
