"""Learning curves: greedy return over environment steps and over seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from drlnet.errors import RunFolderError
from drlnet.plots.band import median, seeds_named
from drlnet.plots.figure import Figure
from drlnet.plots.panel import Axis, Mark
from drlnet.plots.runs import Numbers, Run, grouped, series

Over = Literal["steps", "seconds", "both"]

_PANELS = {
    "steps": {"steps": "over environment steps"},
    "seconds": {"seconds": "over seconds since the start"},
}
_PANELS["both"] = _PANELS["steps"] | _PANELS["seconds"]
_AXES = {"steps": "environment steps", "seconds": "seconds"}


def learning(runs: Sequence[Run], over: Over = "both") -> Figure:
    """A line for each setting: the median of its seeds, in a band from the least to the most.

    A run that has ended keeps its last value, so that the others are not alone behind it.
    RunFolderError when no run has been evaluated yet.
    """
    groups = grouped(runs)
    envs = list(dict.fromkeys(run.config.env.id for run in runs))
    goals = {run.config.run.goal for run in runs}
    title = f"Greedy return of {' and '.join(envs)}"
    if any(len(members) > 1 for members in groups.values()):
        title += ": median of the seeds, least to most"
    figure = Figure(title, panels=list(_PANELS[over].values()), share_y=True, panel_inches=3.0)
    marks = [Mark(goal, f"goal {goal:g}", axis="y") for goal in goals if goal is not None]
    for kind, panel in _PANELS[over].items():
        lines = {}
        for label, members in groups.items():
            curves = [curve for run in members if len((curve := _curve(run, kind))[0])]
            if curves:
                lines[seeds_named(label, len(curves))] = median(curves, after_end="last")
        if not lines:
            raise RunFolderError(
                "none of these runs has been evaluated yet",
                "plot after the gate's first evaluation (eval.period steps)",
            )
        figure.lines(
            panel,
            lines,
            x=Axis(_AXES[kind], low=0),
            y=Axis("return" if panel == next(iter(_PANELS[over].values())) else ""),
            marks=marks,
        )
    return figure


def _curve(run: Run, kind: str) -> tuple[Numbers, Numbers]:
    """(x, return) of each evaluation that a reading tells of."""
    returns = series(run.learner, "eval_return")
    x = (
        series(run.learner, "env_steps")
        if kind == "steps"
        else series(run.learner, "time") - run.started_s
    )
    # The newest evaluation stands in all readings until the next one.
    evaluated = series(run.learner, "eval_learner_steps")
    changed = np.concatenate([[True], evaluated[1:] != evaluated[:-1]])
    chosen = np.isfinite(returns) & changed
    return x[chosen], returns[chosen]
