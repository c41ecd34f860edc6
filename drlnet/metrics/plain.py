"""Readings as plain JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

PERCENTILES = {"p50_us": 0.5, "p90_us": 0.9, "p99_us": 0.99, "p999_us": 0.999}


def plain(value: Any) -> Any:
    """A value of a reading, or a whole reading, for JSON.

    A histogram becomes its count, mean, percentiles and maximum; a number that JSON has no name for
    becomes None; others keep six digits, and thousandths: two counts of seconds are subtracted.
    """
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    if hasattr(value, "percentile_us"):
        figures = {"mean_us": value.mean_us, "max_us": value.max_us}
        figures |= {name: value.percentile_us(share) for name, share in PERCENTILES.items()}
        return {"count": value.count, **plain(figures)}
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(f"{value:.6g}") if abs(value) < 1000 else round(value, 3)
    return value
