"""torchrl: PrioritizedSampler, whose trees are C++, and TensorDictPrioritizedReplayBuffer over
tensors in memory.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, PrioritizedSampler, TensorDictPrioritizedReplayBuffer

from drlnet.bench.peers import ALPHA, BETA, FLOOR, Floats, Indices, Peer
from drlnet.bench.replay.memory import Block, Drawn, InProcess
from drlnet.bench.shapes import Shape


class TorchrlSampler(Peer):
    includes = "draw: its sampler's sample(), no rows; update: its sampler's update_priority()"

    def __init__(self, priorities: Floats) -> None:
        torch.set_num_threads(1)  # one core, as all subjects have
        logging.getLogger("torchrl").setLevel(logging.WARNING)  # it tells of every storage
        count = len(priorities)
        # The sampler asks the storage how many rows there are, and of which shape.
        self._storage = LazyTensorStorage(count)
        self._storage.set(slice(0, count), torch.zeros(count, dtype=torch.uint8))
        self._sampler = PrioritizedSampler(count, ALPHA, BETA, FLOOR)
        self.update(torch.arange(count), torch.from_numpy(priorities))

    def draw(self, batch: int) -> tuple[Any, Any]:
        indices, more = self._sampler.sample(self._storage, batch)
        return indices, more["priority_weight"]

    def given(self, indices: Indices, priorities: Floats) -> tuple[Any, Any]:
        return torch.from_numpy(indices), torch.from_numpy(priorities)

    def update(self, indices: Any, priorities: Any) -> None:
        self._sampler.update_priority(indices, priorities, storage=self._storage)


class Torchrl(InProcess):
    includes = (
        "in process: TensorDictPrioritizedReplayBuffer, whole rows in LazyTensorStorage; "
        "extend() of tensordicts"
    )

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        logging.getLogger("torchrl").setLevel(logging.WARNING)  # it tells of every storage
        storage = LazyTensorStorage(shape.capacity)
        self._buffer = TensorDictPrioritizedReplayBuffer(
            alpha=ALPHA, beta=BETA, eps=FLOOR, storage=storage
        )

    def insert(self, block: Block) -> None:
        tensors = {name: torch.from_numpy(column) for name, column in block.items()}
        self._buffer.extend(TensorDict(tensors, batch_size=[len(block["action"])]))

    def draw(self, batch: int) -> Drawn:
        rows = self._buffer.sample(batch)
        return rows["index"], rows["priority_weight"], rows

    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        self._buffer.update_priority(keys, torch.from_numpy(priorities))
