"""Numpy: a cumulative sum and a binary search in it, or a binary sum tree walked for whole batches;
and a memory of an array per column beside such a tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.peers import BETA, Floats, Indices, Peer, mass
from drlnet.bench.replay.memory import Block, Drawn, InProcess
from drlnet.bench.shapes import Shape


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


class Numpy(InProcess):
    includes = "in process: whole rows in arrays, a tree in numpy"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._capacity = shape.capacity
        self._tree = NumpyTree(np.zeros(shape.capacity, np.float32))
        self._columns = {
            name: np.zeros((shape.capacity, *column.shape), column.dtype)
            for name, column in shape.whole_columns.items()
        }
        self._next = 0
        self._maximum = np.float32(1)

    def insert(self, block: Block) -> None:
        count = len(block["action"])
        slots = np.arange(self._next, self._next + count) % self._capacity
        for name, column in block.items():
            self._columns[name][slots] = column
        self._tree.update(slots, np.full(count, self._maximum, np.float32))
        self._next += count

    def draw(self, batch: int) -> Drawn:
        slots, weights = self._tree.draw(batch)
        rows = {name: column[slots] for name, column in self._columns.items()}
        return slots, weights, rows

    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        self._tree.update(keys, priorities)
        self._maximum = max(self._maximum, priorities.max())
