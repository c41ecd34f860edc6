"""The seeds of one setting as one line: their median, in a band from the least to the most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from drlnet.plots.panel import Line
from drlnet.plots.runs import Numbers

_GRID = 200  # points of a median


def seeds_named(label: str, seeds: int) -> str:
    """The label, with how many seeds it stands for."""
    return ", ".join(part for part in (label, f"{seeds} seeds" if seeds > 1 else "") if part)


def median(
    curves: Sequence[tuple[Numbers, Numbers]], *, after_end: Literal["last", "nothing"]
) -> Line:
    """The median of (x, y) curves, from where all have begun to where the last one ends.

    after_end: whether a curve counts with its last value, or no more, behind its end.
    """
    curves = [(x, y) for x, y in curves if np.isfinite(y).any()] or list(curves[:1])
    if len(curves) == 1:
        return Line(*curves[0])
    start = max(x[0] for x, _ in curves)
    grid = np.linspace(start, max(start, *(x[-1] for x, _ in curves)), _GRID)
    right = None if after_end == "last" else np.nan
    values = np.array([np.interp(grid, x, y, right=right) for x, y in curves])
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    return Line(grid, np.nanmedian(values, axis=0), low=low, high=high)
