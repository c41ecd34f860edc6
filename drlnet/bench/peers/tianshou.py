"""tianshou: PrioritizedReplayBuffer and its segment tree, compiled by numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from tianshou.data import Batch, PrioritizedReplayBuffer

from drlnet.bench.peers.peer import ALPHA, BETA, Floats, Indices, Peer


class Tianshou(Peer):
    includes = "draw: its sample_indices() and get_weight(), no rows; update: its update_weight()"

    def __init__(self, priorities: Floats) -> None:
        self._buffer = PrioritizedReplayBuffer(len(priorities), alpha=ALPHA, beta=BETA)
        # It adds rows one by one. An empty buffer draws uniformly, so it gets one; the priorities
        # are set for all.
        self._buffer.add(
            Batch(obs=0, act=0, rew=0.0, terminated=False, truncated=False, obs_next=0, info={})
        )
        self._buffer.update_weight(np.arange(len(priorities)), priorities)

    def draw(self, batch: int) -> tuple[Any, Any]:
        indices = self._buffer.sample_indices(batch)
        return indices, self._buffer.get_weight(indices)

    def update(self, indices: Indices, priorities: Floats) -> None:
        self._buffer.update_weight(indices, priorities)
