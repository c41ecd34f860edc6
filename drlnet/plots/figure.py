"""A figure: panels of lines or bars under one title and one legend, as SVG or PNG."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Drawing
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from drlnet.errors import ConfigError, cannot_write
from drlnet.metrics.whole import write_whole
from drlnet.plots.panel import (
    Axis,
    Bar,
    Line,
    Mark,
    draw_bar,
    draw_line,
    draw_mark,
    draw_point,
    limit,
    set_ticks,
)
from drlnet.plots.style import RC, WIDTH_INCHES, Look, look

SUFFIXES = (".svg", ".png")
_PNG_DPI = 150
_LEFT = 0.008  # margin, as a share of the width
_TITLE_INCHES, _ROW_INCHES = 0.32, 0.62  # of the figure; of a row of panels: its title and ticks
_BAR_INCHES, _GROUP_GAP_BARS = 0.135, 0.9
_POINTS_INCHES, _APART = 0.19, 0.24  # a row of points; between two of them, as a share of it


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
                    draw_line(axes, line, self._look(subject))
            self._axis(axes, "x", x)
            self._axis(axes, "y", y)
            for mark in marks:
                draw_mark(axes, mark)
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
                    draw_bar(axes, at, bar, self._look(subject))
                    at += 1
                at += _GROUP_GAP_BARS
            axes.set_yticks(places, names)
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")
            axes.set_ylim(at - _GROUP_GAP_BARS / 2, -0.5 - _GROUP_GAP_BARS / 2)
            self._axis(axes, "x", axis)
            self._height_inches = at * _BAR_INCHES + _ROW_INCHES

    def points(self, panel: str, rows: Mapping[str, Mapping[str, Bar]], *, axis: Axis) -> None:
        """Draws a row below the other, in each a point per subject; `axis` is that of the values.

        All panels have the same rows, some of them empty: a figure with share_y names them once.
        """
        axes = self._panels[panel]
        with matplotlib.rc_context(RC):
            for place, bars in enumerate(rows.values()):
                for number, (subject, bar) in enumerate(bars.items()):
                    self._marked.add(subject)
                    at = place + (number - (len(bars) - 1) / 2) * _APART
                    draw_point(axes, at, bar, self._look(subject))
            axes.set_yticks(range(len(rows)), [*rows])
            axes.tick_params(axis="y", length=0)
            axes.set_ylim(len(rows) - 0.5, -0.5)
            self._axis(axes, "x", axis)
            self._height_inches = len(rows) * _POINTS_INCHES + _ROW_INCHES

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
            limit(axes, name, axis)
        for axes, name, axis in self._axes:
            set_ticks(axes, name, axis)
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
        name = path.with_suffix(".svg").name if path.name.strip(".") else "plot.svg"
        raise ConfigError(
            f"{path}: a plot is written as {' or '.join(SUFFIXES)}",
            f"name it {name}",
        )
