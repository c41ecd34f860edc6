"""Reverb: a prioritized table in a server of its own, a TrajectoryWriter, a TrajectoryDataset."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import reverb
import tensorflow as tf

from drlnet.bench.peers import ALPHA, BETA, Remote
from drlnet.bench.processes import Worker
from drlnet.bench.replay.memory import BY, Block, Drawn, Inserter
from drlnet.bench.shapes import Shape
from drlnet.launch.signals import Stop

_TABLE = "replay"


class _Served:
    """The server's process."""

    def __init__(self, shape: Shape) -> None:
        signature = {
            name: tf.TensorSpec((1, *column.shape), np.dtype(column.dtype), name)
            for name, column in shape.whole_columns.items()
        }
        table = reverb.Table(
            _TABLE,
            sampler=reverb.selectors.Prioritized(ALPHA),
            remover=reverb.selectors.Fifo(),
            max_size=shape.capacity,
            rate_limiter=reverb.rate_limiters.MinSize(1),
            signature=signature,
        )
        self._server = reverb.Server([table])

    def port(self) -> int:
        return int(self._server.port)

    def close(self) -> None:
        self._server.stop()


class _Inserting(Inserter):
    """One process's way in. New items have priority 1: Reverb knows no largest one."""

    def __init__(self, address: str) -> None:
        self._writer = reverb.Client(address).trajectory_writer(num_keep_alive_refs=BY)

    def insert(self, block: Block) -> None:
        for index in range(len(block["action"])):
            self._writer.append({name: column[index] for name, column in block.items()})
            trajectory = {name: column[-1:] for name, column in self._writer.history.items()}
            self._writer.create_item(_TABLE, priority=1.0, trajectory=trajectory)
        self._writer.flush(block_until_num_items=BY)

    def wait_for_inserts(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class Reverb(Remote):
    includes = (
        "a server of its own: TrajectoryWriter with an item per transition; TrajectoryDataset, "
        "batched, which reads ahead; mutate_priorities()"
    )

    def __init__(self, shape: Shape) -> None:
        self._server = Worker(Stop(), partial(_Served, shape))
        self._address = f"localhost:{self._server.call('port')}"
        self._client = reverb.Client(self._address)
        super().__init__(partial(_Inserting, self._address))
        self._batches: dict[int, Any] = {}

    def sample(self, batch: int) -> Drawn:
        if batch not in self._batches:
            dataset = reverb.TrajectoryDataset.from_table_signature(
                server_address=self._address,
                table=_TABLE,
                max_in_flight_samples_per_worker=2 * batch,
            )
            self._batches[batch] = dataset.batch(batch).as_numpy_iterator()
        drawn = next(self._batches[batch])
        weights = (drawn.info.table_size * drawn.info.probability) ** -BETA
        return drawn.info.key, weights / weights.max(), drawn.data

    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        updates = dict(zip(keys.tolist(), priorities.tolist(), strict=True))
        self._client.mutate_priorities(_TABLE, updates=updates)

    def close(self) -> None:
        self._batches.clear()
        super().close()
        self._server.close()
