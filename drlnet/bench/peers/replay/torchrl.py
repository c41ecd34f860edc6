"""torchrl: TensorDictPrioritizedReplayBuffer over tensors in memory."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, TensorDictPrioritizedReplayBuffer

from drlnet.bench.peers.peer import FLOOR
from drlnet.bench.peers.replay.in_process import InProcess
from drlnet.bench.replay.memory import ALPHA, BETA, Block, Drawn
from drlnet.bench.shapes import Shape


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
