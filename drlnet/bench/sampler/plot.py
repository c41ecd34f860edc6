"""Latency over the number of leaves, one curve a subject, and where the caches end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drlnet.bench.records import Record
from drlnet.bench.svg import LogAxis, colours_of, document, legend, legend_height, line, text

LEAF_BYTES = 4  # float32: the tree above the leaves adds a fraction to it

_LEFT, _PANEL, _BETWEEN, _RIGHT = 60, 380, 70, 30  # widths
_TOP, _HEIGHT, _BOTTOM = 34, 300, 46


def plot(records: Sequence[Record], sizes: Mapping[str, int], caches: Mapping[str, int]) -> str:
    """The SVG: a panel for draws, one for updates; a thin line reaches from p50 to p99.

    sizes: leaves by workload; records of others are left out. caches: bytes by name, marked where
    the leaves alone fill them.
    """
    shown = [record for record in records if record.workload in sizes]
    colours = colours_of(list(dict.fromkeys(record.subject for record in shown)))
    top = _TOP + legend_height(colours) + 24
    parts = [
        text(_LEFT, 16, "p50 of a batch (point) to p99 (line), us, over leaves", size=13),
        *legend(colours, _LEFT, _TOP),
    ]
    times = [time for record in shown for time in (record.p50_us, record.p99_us)]
    y = LogAxis.over(times, top + _HEIGHT, top)
    for index, op in enumerate(dict.fromkeys(record.op for record in shown)):
        left = _LEFT + index * (_PANEL + _BETWEEN)
        x = LogAxis.over([sizes[record.workload] for record in shown], left, left + _PANEL, 2)
        parts += [*_grid(op, x, y), *_marks(x, y, caches)]
        for subject, colour in colours.items():
            of_subject = [r for r in shown if (r.subject, r.op) == (subject, op)]
            parts += _curve(of_subject, sizes, x, y, colour)
    width = _LEFT + 2 * _PANEL + _BETWEEN + _RIGHT
    return document(width, top + _HEIGHT + _BOTTOM, parts)


def _grid(op: str, x: LogAxis, y: LogAxis) -> list[str]:
    left, right, low, high = x.start, x.end, y.start, y.end
    parts = [text(left, high - 22, op, size=12)]
    for power in y.powers():
        at = y(10.0**power)
        parts += [
            line(left, at, right, at, "#ddd"),
            text(left - 6, at + 4, f"{10.0**power:g}", anchor="end"),
        ]
    step = 1 if len(x.powers()) <= 12 else 2
    for power in x.powers()[::step]:
        at = x(2.0**power)
        parts += [
            line(at, low, at, low + 4, "#999"),
            text(at, low + 18, f"2^{power}", anchor="middle"),
        ]
    return [*parts, text((left + right) / 2, low + 36, "leaves", anchor="middle")]


def _marks(x: LogAxis, y: LogAxis, caches: Mapping[str, int]) -> list[str]:
    parts = []
    for name, size_bytes in caches.items():
        leaves = size_bytes / LEAF_BYTES
        if x.covers(leaves):
            at = x(leaves)
            dashed = ' stroke-dasharray="4 3"'
            parts += [
                line(at, y.start, at, y.end, "#777", more=dashed),
                text(at, y.end - 6, f"{name} {_bytes(size_bytes)}", anchor="middle", size=9),
            ]
    return parts


def _bytes(count: int) -> str:
    return f"{count / 2**20:g} MiB" if count >= 2**20 else f"{count / 2**10:g} KiB"


def _curve(
    records: Sequence[Record], sizes: Mapping[str, int], x: LogAxis, y: LogAxis, colour: str
) -> list[str]:
    places = [(x(sizes[r.workload]), y(r.p50_us), y(r.p99_us)) for r in records]
    points = " ".join(f"{at:.1f},{p50:.1f}" for at, p50, _ in places)
    parts = [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>']
    for at, p50, p99 in places:
        parts += [
            f'<circle cx="{at:.1f}" cy="{p50:.1f}" r="2.5" fill="{colour}"/>',
            line(at, p50, at, p99, colour, more=' stroke-opacity="0.5"'),
        ]
    return parts
