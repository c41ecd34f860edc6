"""What flowed while a run went on: steps of actors and learner, bytes of the server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drlnet.errors import RunFolderError
from drlnet.metrics.catalog import find
from drlnet.plots.band import median, seeds_named
from drlnet.plots.figure import Figure
from drlnet.plots.panel import Axis
from drlnet.plots.runs import Numbers, Run, grouped, series

# What each panel adds up of the server's readings; nothing: the steps of the learner's own, whose
# other processes, and one that it replaced, report theirs to the server, too.
_PANELS = {
    "environment steps per second": ("table.<table>.env_steps",),
    "learner steps per second": (),
    "bytes per second, in and out": (
        "transport.<transport>.bytes_received",
        "transport.<transport>.bytes_sent",
    ),
}


def throughput(runs: Sequence[Run]) -> Figure:
    """A line for each setting over the seconds since the start: the median of its seeds, in a band
    from the least to the most, of those that still run.

    RunFolderError when no run has two readings of its server.
    """
    groups = grouped(runs)
    title = "Throughput"
    if any(len(members) > 1 for members in groups.values()):
        title += ": median of the seeds, least to most"
    figure = Figure(title, panels=list(_PANELS), columns=3, panel_inches=2.7)
    drawn = False
    for panel, patterns in _PANELS.items():
        lines = {}
        for label, members in groups.items():
            curves = [_rate(run, patterns) for run in members if len(run.server) > 1]
            if curves:
                lines[seeds_named(label, len(curves))] = median(curves, after_end="nothing")
        drawn |= bool(lines)
        figure.lines(panel, lines, x=Axis("seconds", low=0), y=Axis(low=0))
    if not drawn:
        raise RunFolderError(
            "none of these runs holds two readings of its server",
            "plot a run that trained for two report intervals (two seconds) or more",
        )
    return figure


def _rate(run: Run, patterns: Sequence[str]) -> tuple[Numbers, Numbers]:
    """(seconds, rate) of each interval between two readings.

    The last reading is taken as the run ends, some milliseconds after another, and so is one each
    time that it paused: over so little time there is no rate. A reading that came after less than
    half of the interval before is left out.
    """
    seconds = series(run.server if patterns else run.learner, "time") - run.started_s
    total = _total(run, patterns) if patterns else series(run.learner, "learner_steps")
    gaps = np.diff(seconds)
    kept = np.ones(len(seconds), bool)
    kept[2:] = gaps[1:] >= gaps[:-1] / 2
    seconds, total = seconds[kept], total[kept]
    elapsed = np.diff(seconds)
    rates = np.diff(total)[elapsed > 0] / elapsed[elapsed > 0]
    return seconds[1:][elapsed > 0], np.maximum(rates, 0.0)


def _total(run: Run, patterns: Sequence[str]) -> Numbers:
    """The sum of the counters of these patterns in each reading of the server."""
    names = {
        name
        for name in dict.fromkeys(name for reading in run.server for name in reading)
        if (found := find(name)) is not None and found[0].pattern in patterns
    }
    counters = [series(run.server, name) for name in sorted(names)]
    return np.nansum(counters, axis=0) if counters else np.full(len(run.server), np.nan)
