"""torchrl: PrioritizedSampler, whose trees are C++ and, in its CUDA wheels, CUDA; and
TensorDictPrioritizedReplayBuffer over tensors in memory.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from torchrl.data import (
    LazyTensorStorage,
    PrioritizedSampler,
    TensorDictPrioritizedReplayBuffer,
)

from drlnet.bench.peers.base import ALPHA, BETA, FLOOR, Floats
from drlnet.bench.peers.torch import TorchPeer
from drlnet.bench.replay.memory import Block, Drawn, InProcess
from drlnet.bench.shapes import Shape


class TorchrlSampler(TorchPeer):
    includes = "draw: its sampler's sample(), no rows; update: its sampler's update_priority()"
    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, priorities: Floats) -> None:
        logging.getLogger("torchrl").setLevel(logging.WARNING)  # it tells of every storage
        count = len(priorities)
        # The sampler asks the storage how many rows there are, and of which shape.
        self._storage = LazyTensorStorage(count, device=self.device)
        self._storage.set(slice(0, count), torch.zeros(count, dtype=torch.uint8))
        self._sampler = PrioritizedSampler(count, ALPHA, BETA, FLOOR, **self.options)
        indices = torch.arange(count, device=self.device)
        self.update(indices, self._tensor(priorities))

    def draw(self, batch: int) -> tuple[Any, Any]:
        indices, more = self._sampler.sample(self._storage, batch)
        self._synchronize()
        return indices, more["priority_weight"]

    def update(self, indices: Any, priorities: Any) -> None:
        self._sampler.update_priority(indices, priorities, storage=self._storage)
        self._synchronize()


class CudaTorchrl(TorchrlSampler):
    includes = f"{TorchrlSampler.includes}; on the GPU, until it has finished"
    device = "cuda"
    options: ClassVar[dict[str, Any]] = {"device": "cuda"}


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
