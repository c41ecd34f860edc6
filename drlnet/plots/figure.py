"""A figure: panels of lines or bars under one title and one legend, as SVG or PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from drlnet.errors import ConfigError, cannot_write
from drlnet.metrics.whole import write_whole
from drlnet.plots.style import MUTED, RC, WIDTH_INCHES, Look, decades, look, number

Values = Sequence[float] | npt.NDArray[np.float64]

SUFFIXES = (".svg", ".png")
_PNG_DPI = 150
_LEFT = 0.008  # margin, as a share of the width
_TITLE_INCHES, _ROW_INCHES = 0.32, 0.62  # of the figure; of a row of panels: its title and ticks
_BAR_INCHES, _GROUP_GAP_BARS = 0.135, 0.9
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


class Figure:
    """Panels side by side, each named by its title ("" for the only one).

    A subject (the key of what is drawn) keeps its colour, dashes and marker over all panels; the
    legend above them names each once, in the order of their first appearance. share_y: one scale
    for all panels. Draw all, then save. Threading: not thread-safe, as matplotlib.
    """

    def __init__(
        self,
        title: str,
        *,
        panels: Sequence[str] = ("",),
        columns: int | None = None,
        panel_inches: float = 3.2,
        share_y: bool = False,
    ) -> None:
        columns = columns or len(panels)
        rows = math.ceil(len(panels) / columns)
        self._height_inches = rows * panel_inches
        self._looks: dict[str, Look] = {}
        self._bars: set[str] = set()
        self._marked: set[str] = set()  # whose lines have points
        self._axes: list[tuple[Axes, str, Axis]] = []
        self._finished = False
        with matplotlib.rc_context(RC):
            self._drawing = Drawing(layout="constrained")
            FigureCanvasAgg(self._drawing)
            self._title = self._drawing.text(
                _LEFT, 1.0, title, ha="left", va="top", fontsize=11.5, fontweight="bold"
            )
            grid = self._drawing.subplots(rows, columns, squeeze=False, sharey=share_y)
            found = [axes for row in grid for axes in row]
            self._panels: dict[str, Axes] = dict(zip(panels, found, strict=False))
            for unused in found[len(panels) :]:
                unused.remove()
            for name, axes in self._panels.items():
                axes.set_title(name)

    def lines(
        self,
        panel: str,
        lines: Mapping[str, Line | Sequence[Line]],
        *,
        x: Axis = Axis(),
        y: Axis = Axis(),
        marks: Sequence[Mark] = (),
    ) -> None:
        """Draws lines, several of one subject alike. Points that are not finite leave gaps."""
        axes = self._panels[panel]
        with matplotlib.rc_context(RC):
            for subject, given in lines.items():
                for line in [given] if isinstance(given, Line) else given:
                    if line.has_points:
                        self._marked.add(subject)
                    _draw_line(axes, line, self._look(subject))
            self._axis(axes, "x", x)
            self._axis(axes, "y", y)
            for mark in marks:
                _draw_mark(axes, mark)
            if any(mark.axis == "x" for mark in marks):
                axes.set_title(panel, pad=18)  # their words stand between

    def bars(self, panel: str, groups: Mapping[str, Mapping[str, Bar]], *, axis: Axis) -> None:
        """Draws horizontal bars, a group below the other; `axis` is the one of their lengths.

        The panel becomes as high as its bars need, so give such a figure one column.
        """
        axes = self._panels[panel]
        with matplotlib.rc_context(RC):
            places, names, at = [], [], 0.0
            for name, bars in groups.items():
                places.append(at + (len(bars) - 1) / 2)
                names.append(name)
                for subject, bar in bars.items():
                    self._bars.add(subject)
                    _draw_bar(axes, at, bar, self._look(subject))
                    at += 1
                at += _GROUP_GAP_BARS
            axes.set_yticks(places, names)
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")
            axes.set_ylim(at - _GROUP_GAP_BARS / 2, -0.5 - _GROUP_GAP_BARS / 2)
            self._axis(axes, "x", axis)
            self._height_inches = at * _BAR_INCHES + _ROW_INCHES

    def svg(self) -> str:
        """The figure as the text of an SVG; the same text for the same content."""
        return self._rendered(".svg").decode()

    def save(self, path: Path) -> None:
        """Writes it as SVG or PNG, by the name's suffix. ConfigError when that cannot be; one
        that was there stays.
        """
        check_suffix(path)
        content = self._rendered(path.suffix.lower())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        except OSError as error:
            raise cannot_write(path, error) from error

    def _look(self, subject: str) -> Look:
        if subject not in self._looks:
            self._looks[subject] = look(len(self._looks))
        return self._looks[subject]

    def _axis(self, axes: Axes, name: str, axis: Axis) -> None:
        if axis.label:
            axes.set(**{f"{name}label": axis.label})
        if axis.log:
            (axes.set_xscale if name == "x" else axes.set_yscale)("log", base=axis.log)
        self._axes.append((axes, name, axis))

    def _rendered(self, suffix: str) -> bytes:
        content = io.BytesIO()
        metadata: dict[str, Any] = {"Date": None} if suffix == ".svg" else {}
        with matplotlib.rc_context(RC):
            if not self._finished:
                self._finish()
            self._drawing.savefig(content, format=suffix[1:], dpi=_PNG_DPI, metadata=metadata)
        return content.getvalue()

    def _finish(self) -> None:
        """What depends on all that was drawn: ticks, the legend, the figure's height."""
        self._finished = True
        for axes, name, axis in self._axes:
            _limit(axes, name, axis)
        for axes, name, axis in self._axes:
            _set_ticks(axes, name, axis)
        self._drawing.set_figwidth(WIDTH_INCHES)
        legend = self._legend()
        head = _TITLE_INCHES
        if legend is not None:
            head += legend.get_window_extent().height / self._drawing.dpi
        height = head + self._height_inches
        self._drawing.set_figheight(height)
        self._title.set_y(1 - 0.08 / height)
        if legend is not None:
            legend.set_bbox_to_anchor((_LEFT, 1 - _TITLE_INCHES / height))
            legend.set_in_layout(False)
        self._title.set_in_layout(False)
        engine = self._drawing.get_layout_engine()
        assert isinstance(engine, ConstrainedLayoutEngine)
        engine.set(rect=(_LEFT, 0, 1 - 2 * _LEFT, 1 - head / height))
        self._drawing.draw_without_rendering()
        self._drawing.set_layout_engine("none")  # as it is now, in whatever format and how often

    def _legend(self) -> Legend | None:
        """Above the panels, where it hides nothing, in as many columns as there is room for."""
        if set(self._looks) <= {""}:
            return None
        handles = [self._handle(subject, found) for subject, found in self._looks.items()]
        room = WIDTH_INCHES * self._drawing.dpi * 0.99
        for columns in range(len(handles), 0, -1):
            legend = self._drawing.legend(
                handles=handles,
                loc="upper left",
                ncols=columns,
                columnspacing=1.4,
                borderaxespad=0,
            )
            if columns == 1 or legend.get_window_extent().width <= room:
                return legend
            legend.remove()
        return None

    def _handle(self, subject: str, found: Look) -> Patch | Line2D:
        if subject in self._bars:
            return Patch(
                facecolor=found.colour, edgecolor="white", hatch=found.hatch, label=subject
            )
        return Line2D(
            [],
            [],
            color=found.colour,
            linestyle=found.dashes,
            linewidth=1.8,
            marker=found.marker if subject in self._marked else "",
            markersize=4,
            label=subject,
        )


def check_suffix(path: Path) -> None:
    """Raises ConfigError unless the name says which of the formats it is to have."""
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(
            f"{path}: a plot is written as {' or '.join(SUFFIXES)}",
            f"name it {path.with_suffix('.svg').name}",
        )


def _draw_line(axes: Axes, line: Line, found: Look) -> None:
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


def _draw_bar(axes: Axes, at: float, bar: Bar, found: Look) -> None:
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


def _draw_mark(axes: Axes, mark: Mark) -> None:
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


def _limit(axes: Axes, name: str, axis: Axis) -> None:
    if axis.low is not None or axis.high is not None:
        (axes.set_xlim if name == "x" else axes.set_ylim)(axis.low, axis.high)


def _set_ticks(axes: Axes, name: str, axis: Axis) -> None:
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
