"""What is compared, and on what: layouts, shapes of experience, and one factor varied at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum

from drlnet import native
from drlnet.client import Item, Limiter, Sampler, View
from drlnet.client.specs import Column, native_spec

TABLE = "experience"


class Layout(str, Enum):
    """Where the replay is, and which side draws."""

    LEARNER = "(a) in the learner"
    STORE = "(b) plain store"
    NETWORK = "(c) in-network"
    MEMORY = "memory server"  # comparison 1: no sampling at all


@dataclass(frozen=True)
class Shape:
    """One step's bytes, and which of its neighbours an item shows beside it.

    stacked: four frames that end at the step, and the same one step on, as Atari's agents see them.
    """

    words: str
    row: tuple[int, ...]  # of uint8
    capacity: int  # rows of the table, all filled: more than caches close to a core hold
    stacked: bool = False

    @property
    def row_bytes(self) -> int:
        return math.prod(self.row)

    def spec(self) -> native.TableSpec:
        """The table, prioritized, without a limiter."""
        views = {"obs": View("row")}
        if self.stacked:
            views = {"obs": View("row", (-3, 0)), "next_obs": View("row", (-2, 1))}
        return native_spec(
            TABLE, {"row": Column("uint8", self.row)}, Item(views), self.capacity, Sampler(),
            Limiter(), seed=0,
        )  # fmt: skip


SHAPES = {
    "cartpole": Shape("40 B step", (40,), 65536),
    "frame": Shape("7 KB frame", (84, 84), 8192, stacked=True),
    "transition": Shape("56 KB transition", (2, 4, 84, 84), 2048),
}


@dataclass(frozen=True)
class Workload:
    """The actors of a group. rate: appends per second of each; 0: as fast as they can."""

    shape: str = "frame"
    actors: int = 2
    rate: float = 250.0

    @property
    def words(self) -> str:
        pace = f"at {self.rate:g}/s" if self.rate else "at full rate"
        return f"{SHAPES[self.shape].words}, {self.actors} actor{'s'[: self.actors - 1]} {pace}"

    def with_batch(self, batch: int) -> str:
        """What a record calls it. batch: 0 where an operation has none."""
        return f"{self.words}, batch {batch}" if batch else self.words


BASE = Workload()
ALONE = Workload(actors=1, rate=0.0)  # of comparison 1 only: one store after the other
BATCHES = (512, 32)


def variations(*, quick: bool) -> list[Workload]:
    """The base case, then one factor changed at a time."""
    shapes = ["cartpole"] if quick else ["cartpole", "transition"]
    found = [BASE, *(replace(BASE, shape=shape) for shape in shapes)]
    if quick:
        return found
    found += [replace(BASE, actors=actors) for actors in (1, 4, 8)]
    return [*found, replace(BASE, rate=0.0)]
