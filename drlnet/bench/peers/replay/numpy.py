"""Numpy: an array per column as a ring, and a binary sum tree walked for the whole batch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.peers.numpy_tree import NumpyTree
from drlnet.bench.peers.replay.in_process import InProcess
from drlnet.bench.replay.memory import Block, Drawn
from drlnet.bench.shapes import Shape


class Numpy(InProcess):
    includes = "in process: whole rows in arrays, a tree in numpy"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._capacity = shape.capacity
        self._tree = NumpyTree(np.zeros(shape.capacity, np.float32))
        self._columns: Block = {}
        self._next = 0
        self._maximum = np.float32(1)

    def insert(self, block: Block) -> None:
        count = len(block["action"])
        slots = np.arange(self._next, self._next + count) % self._capacity
        for name, column in block.items():
            if name not in self._columns:
                shape = (self._capacity, *column.shape[1:])
                self._columns[name] = np.zeros(shape, column.dtype)
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
