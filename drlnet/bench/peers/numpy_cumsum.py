"""Numpy without a tree: a cumulative sum and a binary search in it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.peers.peer import BETA, Floats, Indices, Peer, mass


class NumpyCumsum(Peer):
    includes = "draw: cumulative sum of all masses, binary searches, weights; update: power, store"

    def __init__(self, priorities: Floats) -> None:
        self._random = np.random.default_rng(0)
        self._masses = mass(priorities)

    def draw(self, batch: int) -> tuple[Indices, NDArray[np.float64]]:
        sums = np.cumsum(self._masses)
        targets = (np.arange(batch) + self._random.random(batch)) * (sums[-1] / batch)
        indices = np.searchsorted(sums, targets, side="right").clip(max=len(sums) - 1)
        weights = (self._masses[indices] / sums[-1] * len(sums)) ** -BETA
        return indices, weights / weights.max()

    def update(self, indices: Indices, priorities: Floats) -> None:
        self._masses[indices] = mass(priorities)
