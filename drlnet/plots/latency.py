"""How long operations took: the share of calls that took longer than a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from drlnet.errors import RunFolderError
from drlnet.metrics.catalog import find
from drlnet.plots.figure import Figure
from drlnet.plots.panel import Axis, Line
from drlnet.plots.runs import Run, grouped
from drlnet.plots.style import duration

# Those that a run's loops wait for, in the order of the loop.
_OPERATIONS = ("append", "sample", "update_priorities", "publish", "fetch")
_PATTERN = "transport.<transport>.<op>.latency"


def latency(runs: Sequence[Run]) -> Figure:
    """A panel for each operation, a line for each transport of each setting; seeds count together.

    From a call to its answer, as clients measured it. RunFolderError when no run kept any.
    """
    counts: dict[str, dict[str, Counter[float]]] = {}
    for label, members in grouped(runs).items():
        for run in members:
            for transport, operation, buckets in _histograms(run.latency):
                subject = label if transport in label.split() else _joined(label, transport)
                of_subject = counts.setdefault(operation, {}).setdefault(subject, Counter())
                for us, count in buckets:
                    of_subject[us] += count
    shown = [operation for operation in _OPERATIONS if operation in counts]
    if not shown:
        raise RunFolderError(
            "none of these runs kept its latencies (latency.json)",
            "they are written when a learner ends in order; `drlnet plot --what learning` "
            "needs none",
        )
    figure = Figure(
        "How many calls took longer than a time",
        panels=[operation.replace("_", " ") for operation in shown],
        columns=min(3, len(shown)),
        panel_inches=2.4,
        share_y=True,
    )
    for index, operation in enumerate(shown):
        figure.lines(
            operation.replace("_", " "),
            {subject: _slower(found) for subject, found in counts[operation].items()},
            x=Axis(log=10, words=duration),
            y=Axis("share of calls" if index % 3 == 0 else "", log=10, high=1.3),
        )
    return figure


def _joined(*parts: str) -> str:
    return ", ".join(part for part in parts if part)


def _histograms(
    latencies: Mapping[str, Any],
) -> Iterable[tuple[str, str, Sequence[tuple[float, int]]]]:
    for name, histogram in latencies.items():
        found = find(name)
        if found is not None and found[0].pattern == _PATTERN and histogram["count"]:
            yield found[1]["transport"], found[1]["op"], histogram["buckets"]


def _slower(counts: Mapping[float, int]) -> Line:
    """The share above each time; the largest of all, above which none is, ends the line."""
    times = np.array(sorted(counts))
    numbers = np.array([counts[us] for us in times], float)
    above = numbers.sum() - np.cumsum(numbers)
    last = len(times) - 1
    shares = np.concatenate([[1.0], above[:last] / numbers.sum()])
    return Line(np.maximum(times, 0.1), shares, steps=True)
