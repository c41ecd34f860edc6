"""Tables as DQN reads them: what lies in a row, and what an item shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drlnet import native
from drlnet.client import Column, Item, Limiter, Sampler, View
from drlnet.client.specs import native_spec


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

    def spec(self, sampler: Sampler) -> native.TableSpec:
        """The table of that shape."""
        return native_spec(
            self.name, self.columns, self.item, self.capacity, sampler, Limiter(), seed=0
        )

    def reply_bytes(self, batch: int) -> int:
        """The bytes of a sample reply."""
        total: int = self.spec(Sampler()).layout(batch)["total_bytes"]  # type: ignore[assignment]
        return total

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


_FRAME = Column("uint8", (84, 84))
SMALL_STEP = Shape("CartPole-shaped, 1-step", Column("float32", (4,)), 1, 1, 2**18)
SMALL = Shape("CartPole-shaped, 3-step", Column("float32", (4,)), 1, 3, 2**18)
FRAMES = Shape("Atari-shaped, 1-step", _FRAME, 4, 1, 20_000)
FRAMES_3 = Shape("Atari-shaped, 3-step", _FRAME, 4, 3, 20_000)
WHOLE = Shape("Atari-shaped, whole rows", _FRAME, 4, 1, 20_000, whole=True)
