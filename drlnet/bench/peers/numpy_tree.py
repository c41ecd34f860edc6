"""Numpy with a binary sum tree, walked for the whole batch at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.peers.peer import BETA, Floats, Indices, Peer, mass


class NumpyTree(Peer):
    includes = "draw: a walk down the levels, weights; update: power, a walk up the levels"

    def __init__(self, priorities: Floats) -> None:
        self._random = np.random.default_rng(0)
        self._count = len(priorities)
        self._depth = max(1, (self._count - 1).bit_length())
        leaves = 1 << self._depth
        # Node i has the children 2i and 2i + 1; the root is 1.
        self._sums = np.zeros(2 * leaves)
        self._sums[leaves : leaves + self._count] = mass(priorities)
        while leaves > 1:
            children = self._sums[leaves : 2 * leaves]
            leaves //= 2
            self._sums[leaves : 2 * leaves] = children[0::2] + children[1::2]

    def draw(self, batch: int) -> tuple[Indices, NDArray[np.float64]]:
        total = self._sums[1]
        targets = (np.arange(batch) + self._random.random(batch)) * (total / batch)
        nodes = np.ones(batch, np.int64)
        for _ in range(self._depth):
            nodes *= 2
            left = self._sums[nodes]
            right = targets >= left
            targets -= left * right
            nodes += right
        indices = (nodes - (1 << self._depth)).clip(max=self._count - 1)
        weights = (self._sums[nodes] / total * self._count) ** -BETA
        return indices, weights / weights.max()

    def update(self, indices: Indices, priorities: Floats) -> None:
        nodes = indices + (1 << self._depth)
        self._sums[nodes] = mass(priorities)
        for _ in range(self._depth):
            nodes >>= 1
            self._sums[nodes] = self._sums[2 * nodes] + self._sums[2 * nodes + 1]
