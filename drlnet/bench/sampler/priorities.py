"""The priorities that are drawn from, by name. They are in random order, alike for everybody."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from drlnet.config.names import require_known

Floats = NDArray[np.float32]


def _wide(random: np.random.Generator, count: int) -> Floats:
    exponents: Floats = random.random(count, np.float32) * np.float32(12) - np.float32(6)
    np.power(np.float32(10), exponents, out=exponents)
    return exponents


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "exponential": lambda random, count: random.standard_exponential(count, np.float32),
    "uniform": lambda random, count: random.random(count, np.float32),
    "equal": lambda random, count: np.ones(count, np.float32),
    "wide": _wide,  # over 12 orders of magnitude
}


def priorities_of(distribution: str, count: int, seed: int = 0) -> Floats:
    """[count], finite and 0 or more. Raises ConfigError for an unknown distribution."""
    require_known("distribution", distribution, list(DISTRIBUTIONS))
    return DISTRIBUTIONS[distribution](np.random.default_rng(seed), count)
