"""torchrl: PrioritizedSampler, whose trees are C++ and, in its CUDA wheels, CUDA."""

from __future__ import annotations

import logging
from typing import Any, ClassVar

import torch
from torchrl.data import LazyTensorStorage, PrioritizedSampler

from drlnet.bench.peers.peer import ALPHA, BETA, FLOOR, Floats
from drlnet.bench.peers.torch_peer import TorchPeer


class Torchrl(TorchPeer):
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


class CudaTorchrl(Torchrl):
    includes = f"{Torchrl.includes}; on the GPU, until it has finished"
    device = "cuda"
    options: ClassVar[dict[str, Any]] = {"device": "cuda"}
