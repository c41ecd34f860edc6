"""cpprb: PrioritizedReplayBuffer, as in its documentation (https://ymd_h.gitlab.io/cpprb)."""

from __future__ import annotations

from typing import Any

import numpy as np
from cpprb import PrioritizedReplayBuffer

from drlnet.bench.peers.peer import ALPHA, BETA, FLOOR, Floats, Indices, Peer


class Cpprb(Peer):
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
