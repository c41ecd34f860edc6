"""cpprb: PrioritizedReplayBuffer, as in its documentation (https://ymd_h.gitlab.io/cpprb)."""

from __future__ import annotations

from typing import Any

import numpy as np
from cpprb import PrioritizedReplayBuffer
from numpy.typing import NDArray

from drlnet.bench.peers.base import ALPHA, BETA, FLOOR, Floats, Indices, Peer
from drlnet.bench.replay.memory import Block, Drawn, InProcess
from drlnet.bench.shapes import Shape
from drlnet.client import Column


class CpprbSampler(Peer):
    includes = "draw: its sample(), one column of 1 B included; update: its update_priorities()"

    def __init__(self, priorities: Floats) -> None:
        count = len(priorities)
        self._buffer = PrioritizedReplayBuffer(
            count, {"row": {"dtype": np.uint8}}, alpha=ALPHA, eps=FLOOR
        )
        self._buffer.add(row=np.zeros(count, np.uint8), priorities=priorities)

    def draw(self, batch: int) -> tuple[Any, Any]:
        drawn = self._buffer.sample(batch, beta=BETA)
        return drawn["indexes"], drawn["weights"]

    def update(self, indices: Indices, priorities: Floats) -> None:
        self._buffer.update_priorities(indices, priorities)


def buffer_of(shape: Shape) -> Any:
    """The buffer of that shape, for whichever process holds it."""

    def entry(column: Column) -> dict[str, Any]:
        return {"dtype": np.dtype(column.dtype), "shape": column.shape or 1}

    columns = {**shape.columns, "obs": shape.stacked, "next_obs": shape.stacked}
    described = {name: entry(column) for name, column in columns.items()}
    return PrioritizedReplayBuffer(shape.capacity, described, alpha=ALPHA, eps=FLOOR)


class Cpprb(InProcess):
    includes = "in process: PrioritizedReplayBuffer, whole rows; add() of arrays"

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        self._buffer = buffer_of(shape)

    def insert(self, block: Block) -> None:
        self._buffer.add(**block)

    def draw(self, batch: int) -> Drawn:
        rows = self._buffer.sample(batch, beta=BETA)
        return rows["indexes"], rows["weights"], rows

    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        self._buffer.update_priorities(keys, priorities)
