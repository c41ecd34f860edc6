"""What a peer must do, as a sampler or as a memory behind a server; settings that all share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.replay.memory import Block, Door, Memory

ALPHA = 0.6  # priority exponent
BETA = 0.4  # importance exponent
FLOOR = 1e-6  # the least priority that counts

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]


def mass(priorities: Floats) -> NDArray[np.float64]:
    """What an item is drawn in proportion to, for peers that leave it to their user."""
    return np.maximum(priorities, FLOOR).astype(np.float64) ** ALPHA


class Peer(ABC):
    """n priorities, all set when it is made."""

    includes: ClassVar[str]  # for a caption: what its draw and its update do

    @abstractmethod
    def __init__(self, priorities: Floats) -> None: ...

    @abstractmethod
    def draw(self, batch: int) -> tuple[Any, ...]:
        """Indices [batch], importance weights [batch], rows if any, in the peer's own types."""

    def given(self, indices: Indices, priorities: Floats) -> tuple[Any, Any]:
        """What update() takes, in the peer's own types. Not timed."""
        return indices, priorities

    @abstractmethod
    def update(self, indices: Any, priorities: Any) -> None:
        """New priorities [k] for indices [k]."""


class Remote(Memory):
    """A memory in a server's process: its learner inserts as its clients do, through the door."""

    def __init__(self, door: Door) -> None:
        self._door, self._own = door, door()

    def insert(self, block: Block) -> None:
        self._own.insert(block)

    def wait_for_inserts(self) -> None:
        self._own.wait_for_inserts()

    def door(self) -> Door:
        return self._door

    def close(self) -> None:
        self._own.close()
