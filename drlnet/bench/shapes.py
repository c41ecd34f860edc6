"""The tables that are measured: rows of bytes, and transitions as DQN reads them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.client import Column, Item, Limiter, Sampler, Table, View
from drlnet.client.specs import native_spec


@dataclass(frozen=True)
class Rows:
    """A prioritized table of one column of bytes, as native loops fill it; views: of an item."""

    name: str
    shape: tuple[int, ...]
    capacity: int
    views: Mapping[str, View] = field(default_factory=lambda: {"row": View("row")})

    @property
    def row_bytes(self) -> int:
        return math.prod(self.shape)

    def spec(self, table: str = "rows") -> native.TableSpec:
        """table: what the server calls it."""
        columns, item = {"row": Column("uint8", self.shape)}, Item(self.views)
        return native_spec(table, columns, item, self.capacity, Sampler(), Limiter(), seed=0)


def fill(table: Table, rows: Mapping[str, NDArray[Any]], count: int) -> None:
    """Appends these rows, one of each stream, until there are that many, with an item on each."""
    streams = len(next(iter(rows.values())))
    goes_on = np.zeros(streams, np.bool_)
    with table.writer(streams) as writer:
        for step in range(count // streams):
            steps = writer.append(rows, np.full(streams, step == 0), goes_on)
            writer.add_items(np.arange(streams), steps)


def bytes_of(spec: native.TableSpec, batch: int) -> int:
    """How long a sample reply is."""
    return cast(int, spec.layout(batch)["total_bytes"])


@dataclass(frozen=True)
class Shape:
    """A table: one column of observations and what belongs to them.

    obs: of one step; stack: how many steps' observations the network sees. whole: each row holds
    its transition whole, both stacks, as replay memories without windows do.
    """

    name: str
    obs: Column
    stack: int
    n_step: int
    capacity: int
    whole: bool = False

    @property
    def stacked(self) -> Column:
        """What the network sees of one step."""
        if self.stack == 1:
            return self.obs
        return Column(self.obs.dtype, (self.stack, *self.obs.shape))

    @property
    def columns(self) -> dict[str, Column]:
        """The bytes of a row."""
        obs = {"obs": self.stacked, "next_obs": self.stacked} if self.whole else {"obs": self.obs}
        others = {"action": "int32", "reward": "float32", "terminated": "bool"}
        return {**obs, **{name: Column(dtype) for name, dtype in others.items()}}

    @property
    def whole_columns(self) -> dict[str, Column]:
        """A transition's, as memories without windows hold it."""
        return {**self.columns, "obs": self.stacked, "next_obs": self.stacked}

    @property
    def item(self) -> Item:
        """The transition at a row: o_t, a_t and, n steps on, what they led to."""
        if self.whole:
            return Item({name: View(name) for name in self.columns})
        n, before = self.n_step, 1 - self.stack
        alone = self.stack == 1
        return Item(
            {
                "obs": View("obs", 0 if alone else (before, 0)),
                "next_obs": View("obs", n if alone else (n + before, n), from_end=True),
                "action": View("action"),
                "reward": View("reward", (1, n), pad="zero"),
                "terminated": View("terminated", (1, n), pad="zero"),
            }
        )

    def spec(self, table: str) -> native.TableSpec:
        """table: what the server calls it."""
        shape = table, self.columns, self.item, self.capacity
        return native_spec(*shape, Sampler(), Limiter(), seed=0)

    def reply_bytes(self, batch: int) -> int:
        """The bytes of a sample reply."""
        return bytes_of(self.spec(self.name), batch)

    @property
    def row_bytes(self) -> int:
        """The bytes of the observations in a row, which are nearly all of it."""
        return sum(
            np.dtype(column.dtype).itemsize * int(np.prod(column.shape))
            for name, column in self.columns.items()
            if name.endswith("obs")
        )

    @property
    def table_bytes(self) -> int:
        """The same of a full table."""
        return self.capacity * self.row_bytes


VECTOR = Shape("Humanoid-shaped, 1-step", Column("float32", (348,)), 1, 1, 2**16)
_FRAME = Column("uint8", (84, 84))
SMALL_STEP = Shape("CartPole-shaped, 1-step", Column("float32", (4,)), 1, 1, 2**18)
FRAMES = Shape("Atari-shaped, 1-step", _FRAME, 4, 1, 20_000)
FRAMES_3 = Shape("Atari-shaped, 3-step", _FRAME, 4, 3, 20_000)
WHOLE = Shape("Atari-shaped, whole rows", _FRAME, 4, 1, 20_000, whole=True)
