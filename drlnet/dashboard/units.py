"""Figures as short words: every function has a widest result, so that columns never jump."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BARS = " ▁▂▃▄▅▆▇█"


def count(value: float) -> str:
    """12345.6 as "12,346"; "-" for NaN."""
    return "-" if math.isnan(value) else f"{value:,.0f}"


def short(value: float, digits: int = 1) -> str:
    """3.14159 as "3.1"; "-" for NaN."""
    return "-" if math.isnan(value) else f"{value:,.{digits}f}"


def three(value: float) -> str:
    """Three significant digits of a value from 0 to 999: "0.12", "1.23", "12.3", "123"."""
    return f"{value:.{2 if value < 9.995 else 1 if value < 99.95 else 0}f}"


def compact(value: float) -> str:
    """A count in at most five characters: "12.3", "1,234", "12.3k", "4.56M"; "-" for NaN."""
    if math.isnan(value):
        return "-"
    if value < 9999.5:
        return f"{value:,.0f}" if value >= 99.95 or value == int(value) else f"{value:.1f}"
    for scale, unit in _SCALES:
        if value >= scale * 0.9995:
            return f"{three(value / scale)}{unit}"
    raise AssertionError("every value from 10,000 on has a scale")


def duration(microseconds: float) -> str:
    """At most seven characters in the unit that suits: "12.3 us", "456 ms", "1.23 s"."""
    if math.isnan(microseconds):
        return "-"
    if microseconds == 0:
        return "0 us"
    if microseconds < 999.5:
        return f"{three(microseconds)} us"
    if microseconds < 999.5e3:
        return f"{three(microseconds / 1e3)} ms"
    return f"{three(microseconds / 1e6)} s"


def size(count_bytes: float) -> str:
    """At most seven characters: "123 B", "12.3 kB", "4.56 GB"; "-" for NaN. Powers of ten."""
    if math.isnan(count_bytes):
        return "-"
    for scale, unit in _SCALES:
        if count_bytes >= scale * 0.9995:
            return f"{three(count_bytes / scale)} {unit}B"
    return f"{count_bytes:.0f} B"


def percent(share: float) -> str:
    """0.384 as "38%"; "-" for NaN."""
    return "-" if math.isnan(share) else f"{share * 100:.0f}%"


def small_percent(share: float) -> str:
    """0.0123 as "1.2%"; "-" for NaN."""
    return "-" if math.isnan(share) else f"{share * 100:.{0 if share >= 0.0995 else 1}f}%"


def clock(seconds: float) -> str:
    """83 as "1:23", 4000 as "1:06:40"; "-" for NaN."""
    if math.isnan(seconds):
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def sparkline(values: Iterable[float], width: int) -> str:
    """The last `width` values as a row of bars between their least and largest."""
    shown = [value for value in values if math.isfinite(value)][-width:]
    if not shown:
        return ""
    low, high = min(shown), max(shown)
    scale = (len(_BARS) - 2) / (high - low) if high > low else 0.0
    return "".join(_BARS[1 + int((value - low) * scale)] for value in shown)


def graph(values: Sequence[float], width: int, height: int) -> list[str]:
    """The last `width` values as columns from zero, newest at the right, in `height` rows.

    The largest one shown fills the height; what is not known is left blank.
    """
    shown = [math.nan] * max(0, width - len(values)) + list(values)[-width:]
    most = max((value for value in shown if math.isfinite(value)), default=0.0)
    steps = len(_BARS) - 1
    levels = [
        0
        if not (math.isfinite(value) and most > 0)
        else max(1 if value > 0 else 0, round(value / most * steps * height))
        for value in shown
    ]
    return [
        "".join(_BARS[min(steps, max(0, level - steps * (height - 1 - row)))] for level in levels)
        for row in range(height)
    ]
