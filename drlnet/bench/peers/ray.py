"""Ray: an actor that holds the memory, called by learner and inserting clients.

The memory in it is cpprb's, the fastest of Python's that keep rows; blocks travel as arguments, and
an inserting client has several calls under way, as Ray's documentation advises.
"""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Read when it is imported. Its own token lets this user's processes in, and nobody else's.
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}

import ray

from drlnet.bench.peers.base import BETA
from drlnet.bench.peers.cpprb import buffer_of
from drlnet.bench.replay.memory import Block, Door, Drawn, Memory
from drlnet.bench.shapes import Shape

_UNDER_WAY = 16  # insertions
_NAME, _NAMESPACE = "replay", "drlnet"


class _Held:
    """In the actor's process."""

    def __init__(self, shape: Shape) -> None:
        self._buffer = buffer_of(shape)

    def insert(self, block: Block) -> None:
        self._buffer.add(**block)

    def sample(self, batch: int) -> Any:
        return self._buffer.sample(batch, beta=BETA)

    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        self._buffer.update_priorities(keys, priorities)


class _Inserting:
    """One process's way in."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._under_way: list[Any] = []

    def insert(self, block: Block) -> None:
        if len(self._under_way) >= _UNDER_WAY:
            finished, self._under_way = ray.wait(self._under_way)
            ray.get(finished)
        self._under_way.append(self._actor.insert.remote(block))

    def wait_for_inserts(self) -> None:
        ray.get(self._under_way)
        self._under_way = []

    def close(self) -> None:
        ray.shutdown()


def _visit(address: str) -> _Inserting:
    ray.init(address=address, namespace=_NAMESPACE, log_to_driver=False)
    return _Inserting(ray.get_actor(_NAME))


class Ray(Memory):
    includes = "a Ray actor that holds cpprb's PrioritizedReplayBuffer; insertions under way: 16"

    def __init__(self, shape: Shape) -> None:
        started = ray.init(
            num_cpus=4, include_dashboard=False, namespace=_NAMESPACE, log_to_driver=False
        )
        self._address = started.address_info["address"]
        self._actor = ray.remote(_Held).options(name=_NAME).remote(shape)
        self._inserting = _Inserting(self._actor)

    def insert(self, block: Block) -> None:
        self._inserting.insert(block)

    def wait_for_inserts(self) -> None:
        self._inserting.wait_for_inserts()

    def sample(self, batch: int) -> Drawn:
        rows = ray.get(self._actor.sample.remote(batch))
        return rows["indexes"], rows["weights"], rows

    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        ray.get(self._actor.update.remote(keys, priorities))

    def door(self) -> Door:
        return partial(_visit, self._address)

    def close(self) -> None:
        ray.shutdown()
