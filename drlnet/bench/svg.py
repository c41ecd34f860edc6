"""The pieces that the benchmarks' plots are made of: an SVG needs no library."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_COLOURS = (
    *("#9aa0a6", "#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#333333"),
    *("#9d755d", "#ff9da6", "#8c6d00", "#2f4b7c", "#76b900"),
)
_LEGEND_COLUMNS, _LEGEND_WIDTH, _LEGEND_HEIGHT = 3, 230, 16


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis: powers low to high of base lie on pixels start to end."""

    low: int
    high: int
    start: float
    end: float
    base: int = 10

    @staticmethod
    def over(values: Iterable[float], start: float, end: float, base: int = 10) -> LogAxis:
        """Whole powers around the values, which are above 0."""
        logs = [math.log(value, base) for value in values]
        low, high = math.floor(min(logs) + 1e-9), math.ceil(max(logs) - 1e-9)
        return LogAxis(low, max(high, low + 1), start, end, base)

    def __call__(self, value: float) -> float:
        share = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def covers(self, value: float) -> bool:
        """Whether the value lies on the axis."""
        return self.low <= math.log(value, self.base) <= self.high

    def powers(self) -> range:
        """The exponents on it."""
        return range(self.low, self.high + 1)


def text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 11) -> str:
    """Words at a place."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def line(x1: float, y1: float, x2: float, y2: float, stroke: str, *, more: str = "") -> str:
    """A straight line; more: further attributes."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"{more}/>'
    )


def colours_of(subjects: Sequence[str]) -> dict[str, str]:
    """A colour for each, in their order."""
    return {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(subjects)}


def legend(colours: dict[str, str], x: float, y: float) -> list[str]:
    """Names beside their colours, in rows of three."""
    found = []
    for i, (name, colour) in enumerate(colours.items()):
        left = x + _LEGEND_WIDTH * (i % _LEGEND_COLUMNS)
        base = y + _LEGEND_HEIGHT * (i // _LEGEND_COLUMNS)
        found.append(
            f'<rect x="{left}" y="{base - 9}" width="10" height="10" fill="{colour}"/>'
            + text(left + 14, base, name)
        )
    return found


def legend_height(colours: dict[str, str]) -> int:
    """How much room it takes."""
    return _LEGEND_HEIGHT * math.ceil(len(colours) / _LEGEND_COLUMNS)


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """The whole SVG, on white."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n'
        "</svg>\n"
    )
