"""The medians as bars on a logarithmic axis: an SVG, made without a library for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from drlnet.bench.records import Record

_COLOURS = ("#9aa0a6", "#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2", "#333333")
_LABEL, _PLOT, _RIGHT = 190, 620, 70  # widths
_BAR, _GAP, _TOP = 11, 12, 34


def plot(records: Sequence[Record]) -> str:
    """The SVG of every record's p50; a thin line reaches to its p99."""
    times = [time for record in records for time in (record.p50_us, record.p99_us)]
    low = math.floor(math.log10(min(times)))
    high = math.ceil(math.log10(max(times)))

    def x(us: float) -> float:
        return _LABEL + _PLOT * (math.log10(us) - low) / max(1, high - low)

    subjects = list(dict.fromkeys(record.subject for record in records))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(subjects)}
    legend_height = 16 * math.ceil(len(subjects) / 3)
    top = _TOP + legend_height
    bars, y = [], top
    cell: tuple[str, str] | None = None
    for record in records:
        if (record.op, record.workload) != cell:
            cell = (record.op, record.workload)
            y += _GAP
            bars.append(
                _text(_LABEL - 8, y + _BAR - 2, f"{record.op}, {record.workload}", anchor="end")
            )
        width = max(1.0, x(record.p50_us) - _LABEL)
        colour = colours[record.subject]
        bars.append(
            f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>'
            f'<line x1="{x(record.p50_us):.1f}" x2="{x(record.p99_us):.1f}" y1="{y + 4.5}" '
            f'y2="{y + 4.5}" stroke="{colour}"/>'
            + _text(x(record.p99_us) + 4, y + _BAR - 3, f"{record.p50_us:.3g}", size=9)
        )
        y += _BAR
    grid = [
        f'<line x1="{x(10**power):.1f}" x2="{x(10**power):.1f}" y1="{top}" y2="{y + 4}" '
        'stroke="#ddd"/>' + _text(x(10**power), y + 18, f"{10**power:g} us", anchor="middle")
        for power in range(low, high + 1)
    ]
    legend = [
        f'<rect x="{_LABEL + 230 * (i % 3)}" y="{_TOP + 16 * (i // 3) - 9}" width="10" height="10" '
        f'fill="{colours[name]}"/>' + _text(_LABEL + 230 * (i % 3) + 14, _TOP + 16 * (i // 3), name)
        for i, name in enumerate(subjects)
    ]
    width, height = _LABEL + _PLOT + _RIGHT, y + 28
    title = _text(_LABEL, 16, "p50 of each operation (bar) to p99 (line), us", size=13)
    body = "\n".join([title, *legend, *grid, *bars])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n'
        "</svg>\n"
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 11) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )
