"""Learning curves: greedy return over environment steps or frames, over seconds or minutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from drlnet.errors import RunFolderError
from drlnet.plots.band import median, seeds_named
from drlnet.plots.figure import Figure
from drlnet.plots.panel import Axis, Mark
from drlnet.plots.runs import Numbers, Run, grouped, series

Over = Literal["steps", "frames", "seconds", "minutes", "both"]


def _steps(run: Run) -> Numbers:
    return series(run.learner, "env_steps")


def _frames(run: Run) -> Numbers:
    """Steps times the frames that an action is held for."""
    return getattr(run.config.env, "frame_skip", 1) * _steps(run)


def _seconds(run: Run) -> Numbers:
    return series(run.learner, "time") - run.started_s


def _minutes(run: Run) -> Numbers:
    return _seconds(run) / 60


# What an axis is called, and where on it each reading lies.
_AXES: dict[str, tuple[str, Callable[[Run], Numbers]]] = {
    "steps": ("environment steps", _steps),
    "frames": ("frames", _frames),
    "seconds": ("seconds", _seconds),
    "minutes": ("minutes", _minutes),
}


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
    kinds = ["steps", "seconds"] if over == "both" else [over]
    panels = [f"over {_AXES[kind][0]}" for kind in kinds]
    figure = Figure(title, panels=panels, share_y=True, panel_inches=3.0)
    marks = [Mark(goal, f"goal {goal:g}", axis="y") for goal in goals if goal is not None]
    for kind, panel in zip(kinds, panels, strict=True):
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
            x=Axis(_AXES[kind][0], low=0),
            y=Axis("return" if panel == panels[0] else ""),
            marks=marks,
        )
    return figure


def _curve(run: Run, kind: str) -> tuple[Numbers, Numbers]:
    """(x, return) of each evaluation that a reading tells of."""
    returns, x = series(run.learner, "eval_return"), _AXES[kind][1](run)
    # The newest evaluation stands in all readings until the next one.
    evaluated = series(run.learner, "eval_learner_steps")
    changed = np.concatenate([[True], evaluated[1:] != evaluated[:-1]])
    chosen = np.isfinite(returns) & changed
    return x[chosen], returns[chosen]
