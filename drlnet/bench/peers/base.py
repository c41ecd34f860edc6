"""What a sampler that is a peer must do, and the settings that are alike for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

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
    def draw(self, batch: int) -> tuple[Any, Any]:
        """Indices [batch] and importance weights [batch], in the peer's own types."""

    def given(self, indices: Indices, priorities: Floats) -> tuple[Any, Any]:
        """What update() takes, in the peer's own types. Not timed."""
        return indices, priorities

    @abstractmethod
    def update(self, indices: Any, priorities: Any) -> None:
        """New priorities [k] for indices [k]."""
