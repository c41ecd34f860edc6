"""Latency: per operation, of the last window, as clients see it and where the server spends it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from drlnet.dashboard.figures import Figures
from drlnet.dashboard.grid import Column, fitting, table
from drlnet.dashboard.scene import Scene
from drlnet.dashboard.units import compact, count, duration, percent

TITLE = "latency · as clients see it, then waiting and work at the server"
_LEAST, _MOST = 5, 14
HISTOGRAM_SIZES = range(6, 31)
# Those of a training's every moment first.
_ORDER = ("append", "sample", "update_priorities", "fetch", "publish", "report", "stats", "ping")
_NAMES = {"update_priorities": "update"}
_BAR = "█"


@dataclass(frozen=True)
class _Operation:
    name: str
    figures: Figures

    def of(self, what: str, q: float) -> str:
        recorded = self.figures.latency(self.name, what)
        if recorded is None or not recorded.count:
            return "-"
        return duration(recorded.percentile_us(q))

    def most(self) -> str:
        recorded = self.figures.latency(self.name)
        return "-" if recorded is None or not recorded.count else duration(recorded.max_us)

    def rate(self) -> str:
        recorded = self.figures.latency(self.name, "handling")
        seconds = self.figures.window.seconds
        return compact(recorded.count / seconds if recorded is not None else math.nan)


def _percentile(what: str, q: float) -> Callable[[_Operation], str]:
    return lambda operation: operation.of(what, q)


_COLUMNS: tuple[Column[_Operation], ...] = (
    Column("operation", 10, lambda o: _NAMES.get(o.name, o.name.replace("_", " ")), left=True),
    Column("per s", 6, lambda o: o.rate(), 1),
    Column("p50", 7, _percentile("latency", 0.5)),
    Column("p90", 7, _percentile("latency", 0.9), 3),
    Column("p99", 7, _percentile("latency", 0.99)),
    Column("p99.9", 7, _percentile("latency", 0.999), 3),
    Column("max", 7, lambda o: o.most(), 2),
    Column("wait50", 7, _percentile("queueing", 0.5), 4),
    Column("wait99", 7, _percentile("queueing", 0.99), 5),
    Column("work50", 7, _percentile("handling", 0.5), 4),
    Column("work99", 7, _percentile("handling", 0.99), 5),
)


def operations(figures: Figures) -> list[str]:
    """The operations that the server has answered, those of every moment first."""
    known = figures.operations
    return [name for name in _ORDER if name in known] + [n for n in known if n not in _ORDER]


def sizes(scene: Scene) -> range:
    """A line of headings, and one per operation."""
    return range(_LEAST, 1 + max(_LEAST, min(_MOST, 1 + len(scene.figures.operations))))


def draw(scene: Scene, width: int, height: int) -> list[Text]:
    """A row per operation."""
    rows = [_Operation(name, scene.figures) for name in operations(scene.figures)]
    return table(fitting(_COLUMNS, width), rows[: height - 1])


def chosen(scene: Scene) -> str:
    """The operation whose histogram is shown."""
    known = operations(scene.figures)
    if scene.operation in known or not known:
        return scene.operation
    return "sample" if "sample" in known else known[0]


def histogram_title(scene: Scene) -> str:
    """The histogram's title."""
    name = chosen(scene)
    what = (
        "as clients see it" if _recorded(scene.figures, name)[0] == "latency" else "at the server"
    )
    return f"histogram of {name.replace('_', ' ') or 'latencies'} · {what}"


def _recorded(figures: Figures, operation: str) -> tuple[str, Any]:
    """What clients see, or where they do not tell it, the server's work."""
    for what in ("latency", "handling"):
        recorded = figures.latency(operation, what)
        if recorded is not None and recorded.count:
            return what, recorded
    return "", None


def draw_histogram(scene: Scene, width: int, height: int) -> list[Text]:
    """The latencies of one operation: a bar per range of durations."""
    _, recorded = _recorded(scene.figures, chosen(scene))
    if recorded is None:
        return [Text("nothing in the last window", "dim")]
    bins = _bins(recorded.buckets, height)
    most, whole = max(n for _, _, n in bins), recorded.count
    room = max(1, width - 35)
    lines = []
    for low, high, n in bins:
        bar = _BAR * max(1 if n else 0, round(n / most * room))
        line = Text(f"{duration(low):>7} - {duration(high):<7}  ")
        line.append(f"{bar:<{room}}", "cyan")
        lines.append(line.append(f" {percent(n / whole):>4} {count(n):>9}"))
    return lines


def _bins(buckets: Sequence[tuple[float, int]], most: int) -> list[tuple[float, float, int]]:
    """(from, to, how many): ranges by equal factors, as narrow as `most` of them allow."""
    exponents = [(math.log2(max(us, 1e-3)), n) for us, n in buckets if n]
    least, largest = min(e for e, _ in exponents), max(e for e, _ in exponents)
    for step in (0.25, 0.5, *range(1, 64)):
        first = math.floor(least / step)
        counts = [0] * (math.floor(largest / step) - first + 1)
        if len(counts) <= max(1, most):
            break
    for exponent, n in exponents:
        counts[math.floor(exponent / step) - first] += n
    return [
        (2.0 ** ((first + i) * step), 2.0 ** ((first + i + 1) * step), n)
        for i, n in enumerate(counts)
    ]
