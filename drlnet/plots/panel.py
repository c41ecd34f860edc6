"""What a panel shows, and how it is drawn: lines, bars, marks and the axes that they lie on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib import ticker
from matplotlib.axes import Axes

from drlnet.plots.style import MUTED, Look, decades, number

Values = Sequence[float] | npt.NDArray[np.float64]

_MOST_POINTS = 60  # of a line whose points are marked


@dataclass(frozen=True)
class Axis:
    """log: 10 or 2 for a logarithmic axis; low and high fix its ends where they are given; words
    makes a tick's label of its value.
    """

    label: str = ""
    log: int = 0
    low: float | None = None
    high: float | None = None
    words: Callable[[float], str] = number


@dataclass(frozen=True)
class Line:
    """y over x. low and high, of the same length: a band around it, or bars from each point."""

    x: Values
    y: Values
    low: Values | None = None
    high: Values | None = None
    spread: str = "band"  # or "bars"
    steps: bool = False  # a value holds until the next one

    @property
    def has_points(self) -> bool:
        """Whether its points are marked: there are few, and they are what was measured."""
        return len(self.x) <= _MOST_POINTS and not self.steps


@dataclass(frozen=True)
class Bar:
    """A bar to `value`, a thin line from there to `high`, and the value as its label."""

    value: float
    high: float | None = None
    label: str | None = None
    behind: str = ""  # the label: what a reader has to know of this one


@dataclass(frozen=True)
class Mark:
    """A dashed line across the panel at a value of x (or y), with a word at its end."""

    at: float
    label: str
    axis: str = "x"


def draw_line(axes: Axes, line: Line, found: Look) -> None:
    """A line over x, with its points and its spread."""
    axes.plot(
        line.x,
        line.y,
        color=found.colour,
        linestyle=found.dashes,
        linewidth=1.6,
        marker=found.marker if line.has_points else "",
        markersize=3.5,
        drawstyle="steps-post" if line.steps else "default",
    )
    if line.low is None and line.high is None:
        return
    low = line.y if line.low is None else line.low
    high = line.y if line.high is None else line.high
    if line.spread == "bars":
        axes.vlines(line.x, low, high, color=found.colour, alpha=0.45, linewidth=1.0)
    else:
        axes.fill_between(
            line.x,
            low,
            high,
            color=found.colour,
            alpha=0.18,
            linewidth=0,
            step="post" if line.steps else None,
        )


def draw_bar(axes: Axes, at: float, bar: Bar, found: Look) -> None:
    """A horizontal bar at that height."""
    axes.barh(
        at, bar.value, height=0.82, color=found.colour, hatch=found.hatch, edgecolor="white",
        linewidth=0,
    )  # fmt: skip
    end = bar.value if bar.high is None else max(bar.value, bar.high)
    if bar.high is not None:
        axes.hlines(at, bar.value, bar.high, color=found.colour, linewidth=1.1)
    words = number(float(f"{bar.value:.3g}")) if bar.label is None else bar.label
    axes.annotate(
        f"{words}{bar.behind}", (end, at),
        xytext=(4, 0), textcoords="offset points", va="center", fontsize=7.5,
    )  # fmt: skip


def draw_point(axes: Axes, at: float, bar: Bar, found: Look) -> None:
    """A value as a point at that height, hollow where there is something `behind` it."""
    face = "white" if bar.behind else found.colour
    axes.plot(bar.value, at, marker=found.marker, color=found.colour, markersize=4,
              markerfacecolor=face, linestyle="")  # fmt: skip
    if bar.high is not None:
        axes.hlines(at, bar.value, bar.high, color=found.colour, linewidth=0.9, zorder=1.5)


def draw_mark(axes: Axes, mark: Mark) -> None:
    """A mark, and its word."""
    if mark.axis == "x":
        axes.axvline(mark.at, color=MUTED, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1.5)
        place, transform = (mark.at, 1.0), axes.get_xaxis_transform()
        turn: dict[str, Any] = {"ha": "center", "va": "bottom", "xytext": (0, 2)}
    else:
        axes.axhline(mark.at, color=MUTED, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1.5)
        place, transform = (0.0, mark.at), axes.get_yaxis_transform()
        turn = {"ha": "left", "va": "bottom", "xytext": (3, 2)}
    axes.annotate(
        mark.label,
        place,
        xycoords=transform,
        textcoords="offset points",
        fontsize=8,
        color=MUTED,
        **turn,
    )


def limit(axes: Axes, name: str, axis: Axis) -> None:
    """Fixes the ends of an axis ("x" or "y") that were given."""
    if axis.low is not None or axis.high is not None:
        (axes.set_xlim if name == "x" else axes.set_ylim)(axis.low, axis.high)


def set_ticks(axes: Axes, name: str, axis: Axis) -> None:
    """Ticks and their labels, once both ends are known."""
    one = axes.xaxis if name == "x" else axes.yaxis
    low, high = (axes.get_xlim if name == "x" else axes.get_ylim)()
    if axis.log:
        one.set_minor_locator(ticker.NullLocator())
        # Labels of x stand side by side: of a third of the width there is room for five or so.
        pixels = axes.get_window_extent().width if name == "x" else 500
        subs = decades(low, high, pixels / 55) if axis.log == 10 else (1.0,)
        one.set_major_locator(ticker.LogLocator(base=axis.log, subs=subs, numticks=11))
    if axis.log == 2:
        one.set_major_formatter(
            ticker.FuncFormatter(lambda value, _: f"$2^{{{math.log2(value):.0f}}}$")
        )
    else:
        one.set_major_formatter(ticker.FuncFormatter(lambda value, _: axis.words(value)))
