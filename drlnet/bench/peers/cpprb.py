"""cpprb: PrioritizedReplayBuffer, as in its documentation (https://ymd_h.gitlab.io/cpprb)."""

from __future__ import annotations

from typing import Any

import numpy as np
from cpprb import PrioritizedReplayBuffer

from drlnet.bench.peers import ALPHA, BETA, FLOOR, Floats, Peer
from drlnet.bench.replay.memory import Block, Drawn, InProcess
from drlnet.bench.shapes import Shape


class _Buffered:
    """The calls of its buffer, whatever lies in it."""

    _buffer: PrioritizedReplayBuffer

    def draw(self, batch: int) -> Drawn:
        rows = self._buffer.sample(batch, beta=BETA)
        return rows["indexes"], rows["weights"], rows

    def update(self, indices: Any, priorities: Floats) -> None:
        self._buffer.update_priorities(indices, priorities)


class CpprbSampler(_Buffered, Peer):
    includes = "draw: its sample(), one column of 1 B included; update: its update_priorities()"

    def __init__(self, priorities: Floats) -> None:
        count = len(priorities)
        self._buffer = PrioritizedReplayBuffer(
            count, {"row": {"dtype": np.uint8}}, alpha=ALPHA, eps=FLOOR
        )
        self._buffer.add(row=np.zeros(count, np.uint8), priorities=priorities)


class Cpprb(_Buffered, InProcess):
    includes = "in process: PrioritizedReplayBuffer, whole rows; add() of arrays"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        described = {
            name: {"dtype": np.dtype(column.dtype), "shape": column.shape or 1}
            for name, column in shape.whole_columns.items()
        }
        self._buffer = PrioritizedReplayBuffer(shape.capacity, described, alpha=ALPHA, eps=FLOOR)

    def insert(self, block: Block) -> None:
        self._buffer.add(**block)
