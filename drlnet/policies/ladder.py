"""Exploration ladders: which epsilon a stream explores with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def radical_inverse(ordinals: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """The base-2 radical inverse (van der Corput): binary digits mirrored at the point.

    0, 1, 2, 3, 4, ... -> 0, 1/2, 1/4, 3/4, 1/8, ...: any prefix covers [0, 1) evenly.
    """
    rest = np.asarray(ordinals, dtype=np.int64)
    inverse = np.zeros(rest.shape, dtype=np.float64)
    digit = 0.5
    while rest.any():
        inverse += digit * (rest & 1)
        rest = rest >> 1
        digit /= 2
    return inverse


def epsilon_ladder(
    ordinals: npt.ArrayLike,
    *,
    base: float = 0.4,
    exponent: float = 7.0,
    ladder: str = "radical",
    total: int | None = None,
) -> npt.NDArray[np.float64]:
    """epsilon = base^(1 + exponent * u) of each stream.

    ladder "radical": u is the radical inverse of the stream's leased ordinal, which stays what it
    is when actors join and leave. ladder "apex" (Horgan et al., 2018): u = index / (total - 1),
    with ordinals as the indices; total must be known.
    """
    if ladder == "radical":
        u = radical_inverse(ordinals)
    elif ladder == "apex":
        assert total is not None, "the apex ladder needs the total"
        u = np.asarray(ordinals, dtype=np.float64) / max(1, total - 1)
    else:
        raise AssertionError(f"no ladder {ladder!r}: config checks its choices")
    return base ** (1.0 + exponent * u)
