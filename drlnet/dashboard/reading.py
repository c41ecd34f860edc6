"""Reads flat readings: names with dots, values that are numbers, texts or histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

Reading = Mapping[str, Any]


@runtime_checkable
class Histogram(Protocol):
    """A histogram of durations, as the client reads it."""

    count: int
    mean_us: float
    max_us: float

    def percentile_us(self, q: float) -> float:
        """The duration under which a share q lies."""
        ...


def clients(reading: Reading) -> dict[str, dict[str, Any]]:
    """What each client reported: {"actor-0": {"env_steps": 10, ...}, ...}."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in reading.items():
        scope, _, rest = key.partition(".")
        name, _, leaf = rest.partition(".")  # a client's name has no dots
        if scope == "client" and name and leaf:
            found.setdefault(name, {})[leaf] = value
    return found


def number(value: Any) -> float:
    """The value as a float; NaN for what is absent or no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value)


def total(parts: Iterable[Mapping[str, Any]], key: str) -> float:
    """The sum of one figure over clients, of those that report it; NaN when none does."""
    values = [number(part.get(key)) for part in parts]
    known = [value for value in values if not math.isnan(value)]
    return sum(known) if known else math.nan


def mean(parts: Iterable[Mapping[str, Any]], key: str) -> float:
    """The mean of one figure over the clients that report it; NaN when none does."""
    values = [number(part.get(key)) for part in parts]
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def rates(before: Reading, after: Reading, seconds: float) -> dict[str, float]:
    """Per second, every counter that grew between two readings; histograms by their counts."""
    found = {}
    for key, value in after.items():
        earlier = before.get(key)
        if isinstance(value, Histogram):
            now, then = float(value.count), number(getattr(earlier, "count", None))
        else:
            now, then = number(value), number(earlier)
        if seconds > 0 and now > then:
            found[key] = (now - then) / seconds
    return found


def count(value: float) -> str:
    """12345.6 as "12,346"; "-" for NaN."""
    return "-" if math.isnan(value) else f"{value:,.0f}"


def short(value: float, digits: int = 1) -> str:
    """3.14159 as "3.1"; "-" for NaN."""
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"


def compact(value: float) -> str:
    """A count in at most six characters: "1,234", "12.3k", "4.56M"; "-" for NaN."""
    if math.isnan(value):
        return "-"
    for limit, scale, unit in ((10e3, 1, ""), (10e6, 1e3, "k"), (10e9, 1e6, "M")):
        if value < limit:
            scaled = value / scale
            whole = unit == "" and (scaled >= 100 or scaled == int(scaled))
            return f"{scaled:,.0f}" if whole else f"{scaled:,.1f}{unit}"
    return f"{value / 1e9:,.1f}G"


def duration(microseconds: float) -> str:
    """A duration in the unit that suits it: "12.3 us", "4.56 ms", "1.23 s"."""
    if math.isnan(microseconds):
        return "-"
    if microseconds < 1e3:
        return f"{microseconds:.1f} us"
    if microseconds < 1e6:
        return f"{microseconds / 1e3:.2f} ms"
    return f"{microseconds / 1e6:.2f} s"


def clock(seconds: float) -> str:
    """83 as "1:23"; "-" for NaN."""
    if math.isnan(seconds):
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Iterable[float], width: int) -> str:
    """The last `width` values as a row of bars between their least and largest."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[int((value - low) * scale)] for value in shown)
