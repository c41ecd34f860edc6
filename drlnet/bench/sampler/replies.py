"""The whole of a server's answer to a sample request, without a network, against plain memcpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench.rounds import Effort
from drlnet.client import Column, Item, Limiter, Sampler, View
from drlnet.client.specs import native_spec


@dataclass(frozen=True)
class Shape:
    """A table: one column of observations and what belongs to them, as DQN reads it."""

    name: str
    obs: Column
    stack: int
    n_step: int
    capacity: int

    def spec(self, sampler: Sampler) -> native.TableSpec:
        """The table of that shape."""
        columns = {
            "obs": self.obs,
            "action": Column("int32"),
            "reward": Column("float32"),
            "discount": Column("float32"),
        }
        n, before = self.n_step, 1 - self.stack
        item = Item(
            {
                "obs": View("obs", (before, 0)),
                "next_obs": View("obs", (n + before, n), from_end=True),
                "action": View("action"),
                "reward": View("reward", (1, n), pad="zero"),
                "discount": View("discount", (1, n), pad="zero"),
            }
        )
        return native_spec(self.name, columns, item, self.capacity, sampler, Limiter(), seed=0)

    @property
    def table_bytes(self) -> int:
        """Of the observations, which are nearly all of it."""
        return int(self.capacity * np.dtype(self.obs.dtype).itemsize * np.prod(self.obs.shape))


SHAPES = (
    Shape("CartPole-shaped, 3-step", Column("float32", (4,)), stack=1, n_step=3, capacity=2**18),
    Shape("Atari-shaped, 1-step", Column("uint8", (84, 84)), stack=4, n_step=1, capacity=20_000),
    Shape("Atari-shaped, 3-step", Column("uint8", (84, 84)), stack=4, n_step=3, capacity=20_000),
)


@dataclass(frozen=True)
class Answered:
    """One turn: whether of a plain memcpy, and latencies, in microseconds, of so many bytes."""

    copied: bool
    latencies_us: NDArray[np.float64]
    reply_bytes: int


def measure_replies(
    shape: Shape, sampler: Sampler, batch: int, effort: Effort, *, copy_first: bool
) -> Iterator[Answered]:
    """Replies, and a plain memcpy of as many bytes: in which order is for rounds to alternate.

    What is copied is drawn from as much memory as the table has, and lies together.
    """
    spec = shape.spec(sampler)
    reply_bytes: int = spec.layout(batch)["total_bytes"]  # type: ignore[assignment]

    def replies() -> Answered:
        table = native.FullTable(spec)
        return Answered(False, effort.latencies_us(partial(table.samples, batch)), reply_bytes)

    def copies() -> Answered:
        places = max(1, shape.table_bytes // reply_bytes)
        copy = partial(native.measure_copies, reply_bytes, places, 1)
        return Answered(True, effort.latencies_us(copy), reply_bytes)

    for measured in (copies, replies) if copy_first else (replies, copies):
        yield measured()
