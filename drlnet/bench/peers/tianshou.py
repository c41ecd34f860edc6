"""tianshou: its prioritized buffers, whose tree numba compiles; frames are stacked as in its Atari
examples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tianshou.data import Batch, PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer

from drlnet.bench.peers import ALPHA, BETA, Floats, Indices, Peer
from drlnet.bench.replay.memory import BY, Block, Drawn, InProcess
from drlnet.bench.shapes import Shape


class TianshouSampler(Peer):
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


class Tianshou(InProcess):
    includes = (
        "in process: PrioritizedVectorReplayBuffer, one ring per environment; of stacked frames it "
        "keeps the newest and stacks when it samples"
    )

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        stacked: dict[str, Any] = {
            "ignore_obs_next": True,
            "save_only_last_obs": True,
            "stack_num": shape.stack,
        }
        self._buffer = PrioritizedVectorReplayBuffer(
            shape.capacity, BY, alpha=ALPHA, beta=BETA, **(stacked if shape.stack > 1 else {})
        )
        self._keeps_next = shape.stack == 1

    def insert(self, block: Block) -> None:
        count = len(block["action"])
        given = Batch(
            obs=block["obs"],
            act=block["action"],
            rew=block["reward"],
            terminated=block["terminated"],
            truncated=np.zeros(count, bool),
            info=Batch(),
        )
        if self._keeps_next:
            given.obs_next = block["next_obs"]
        self._buffer.add(given, buffer_ids=np.arange(count))

    def draw(self, batch: int) -> Drawn:
        rows, indices = self._buffer.sample(batch)
        return indices, rows.weight, rows

    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        self._buffer.update_weight(keys, priorities)
