"""The medians as bars on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence

from drlnet.bench.records import Record
from drlnet.bench.svg import LogAxis, colours_of, document, legend, legend_height, line, text

_LABEL, _PLOT, _RIGHT = 190, 620, 70  # widths
_BAR, _GAP, _TOP = 11, 12, 34


def plot(records: Sequence[Record]) -> str:
    """The SVG of every record's p50; a thin line reaches to its p99."""
    times = [time for record in records for time in (record.p50_us, record.p99_us)]
    x = LogAxis.over(times, _LABEL, _LABEL + _PLOT)
    colours = colours_of(list(dict.fromkeys(record.subject for record in records)))
    top = _TOP + legend_height(colours)
    bars, y = [], top
    cell: tuple[str, str] | None = None
    for record in records:
        if (record.op, record.workload) != cell:
            cell = (record.op, record.workload)
            y += _GAP
            bars.append(
                text(_LABEL - 8, y + _BAR - 2, f"{record.op}, {record.workload}", anchor="end")
            )
        width = max(1.0, x(record.p50_us) - _LABEL)
        colour = colours[record.subject]
        bars.append(
            f'<rect x="{_LABEL}" y="{y}" width="{width:.1f}" height="{_BAR - 2}" fill="{colour}"/>'
            + line(x(record.p50_us), y + 4.5, x(record.p99_us), y + 4.5, colour)
            + text(x(record.p99_us) + 4, y + _BAR - 3, f"{record.p50_us:.3g}", size=9)
        )
        y += _BAR
    grid = [
        line(x(10**power), top, x(10**power), y + 4, "#ddd")
        + text(x(10**power), y + 18, f"{10**power:g} us", anchor="middle")
        for power in x.powers()
    ]
    title = text(_LABEL, 16, "p50 of each operation (bar) to p99 (line), us", size=13)
    parts = [title, *legend(colours, _LABEL, _TOP), *grid, *bars]
    return document(_LABEL + _PLOT + _RIGHT, y + 28, parts)
