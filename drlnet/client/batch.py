"""A drawn batch: arrays laid over the reply's bytes, without a copy where that is possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from drlnet.client.specs import Column, Item
from drlnet.native import TableSpec

if TYPE_CHECKING:
    import torch

_HEADER = np.dtype(
    [
        ("batch", "<u4"),
        ("reserved", "<u4"),
        ("item_count", "<u8"),
        ("head", "<u8"),
        ("env_steps", "<u8"),
        ("items_created", "<u8"),
        ("items_drawn", "<u8"),
        ("priority_mass", "<f8"),
        ("reserved2", "<u8"),
    ]
)
NO_KEY = np.uint64(2**64 - 1)
"""In Table.read_items: the key of what is not held."""

_NUMBER_BITS = np.uint64((1 << 40) - 1)
_SHARD_SHIFT = np.uint64(56)


class Buffer(NamedTuple):
    """Where a batch lies: the reply, and by view those rows of it that had to be copied out."""

    reply: NDArray[np.uint8]
    copies: dict[str, NDArray[Any]]


class BatchLayout:
    """Where the parts of a reply of n items lie (native/src/wire/sample_layout.h), and behind it,
    of a server of several shards, the head of each."""

    def __init__(
        self, spec: TableSpec, columns: Mapping[str, Column], item: Item, n: int, shards: int
    ) -> None:
        layout = cast(dict[str, Any], spec.layout(n))
        self.n = n
        self.horizon = spec.horizon()
        self.shards = shards
        self.reply_bytes: int = layout["total_bytes"]
        self.total_bytes = self.reply_bytes + (0 if shards == 1 else 8 * shards)
        self.keys: int = layout["keys"]
        self.probabilities: int = layout["probabilities"]
        self.lengths: int = layout["lengths"]
        self.views = {
            name: _ViewLayout(columns[view.column], isinstance(view.rows, int), *place)
            for (name, view), place in zip(item.views.items(), layout["views"], strict=True)
        }

    def buffer(self) -> Buffer:
        """Memory for one reply, uninitialised."""
        return Buffer(np.empty(self.total_bytes, np.uint8), {})


class _ViewLayout:
    def __init__(
        self,
        column: Column,
        squeeze: bool,
        offset: int,
        window_rows: int,
        first: int,
        rows: int,
        shift: bool,
    ) -> None:
        self.dtype = np.dtype(column.dtype)
        self.shape = column.shape
        self.squeeze = squeeze
        self.offset = offset
        self.window_rows = window_rows
        self.first = first
        self.rows = rows
        self.shift = shift

    def over(
        self, name: str, buffer: Buffer, n: int, horizon: int, length: NDArray[np.uint32]
    ) -> NDArray[Any]:
        window: NDArray[Any] = np.ndarray(
            (n, self.window_rows, *self.shape), self.dtype, buffer.reply.data, self.offset
        )
        shown = window[:, self.first : self.first + self.rows]
        if self.shift:
            early = np.flatnonzero(length < horizon)
            if len(early):
                shown = self._shifted(name, buffer, window, early, horizon - length[early])
        return shown[:, 0] if self.squeeze else shown

    def _shifted(
        self,
        name: str,
        buffer: Buffer,
        window: NDArray[Any],
        early: NDArray[np.int64],
        by: NDArray[np.uint32],
    ) -> NDArray[Any]:
        """The rows, copied: items that end early start earlier in the window that views share.

        Into memory that is there already if the buffer had a batch before: for stacks of frames,
        fresh pages would cost more than the copy.
        """
        if name not in buffer.copies:
            shape = (len(window), self.rows, *self.shape)
            buffer.copies[name] = np.empty(shape, self.dtype)
        copied = buffer.copies[name]
        np.copyto(copied, window[:, self.first : self.first + self.rows])
        index = (self.first - by.astype(np.int64))[:, None] + np.arange(self.rows)
        copied[early] = window[early[:, None], index]
        return copied


class Views(Mapping[str, NDArray[Any]]):
    """The item's views by name, (n, *shape) or (n, rows, *shape) each, made when asked for."""

    def __init__(self, layout: BatchLayout, buffer: Buffer, length: NDArray[np.uint32]) -> None:
        self._layout = layout
        self._buffer = buffer
        self._length = length

    def __getitem__(self, name: str) -> NDArray[Any]:
        layout = self._layout
        return layout.views[name].over(name, self._buffer, layout.n, layout.horizon, self._length)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.views)

    def __len__(self) -> int:
        return len(self._layout.views)


class Batch:
    """n items drawn with replacement, in shuffled order; those of one shard stand together.

    views: Mapping[str, array], as the item declares them.
    keys: uint64 [n], for update_priorities.
    probabilities: float32 [n], with which each item was really drawn.
    length: uint32 [n], each item's true number of steps m, at most the item's horizon.
    item_count: live items in the table when the batch was drawn.
    age: int64 [n], rows that were stored since the item's own (at its shard).
    env_steps, items_created, items_drawn: the table's totals; priority_mass: its sum of priorities.
    """

    def __init__(self, layout: BatchLayout, buffer: Buffer) -> None:
        n = layout.n
        memory = buffer.reply.data
        header = np.ndarray((), _HEADER, memory, 0)
        self.keys: NDArray[np.uint64] = np.ndarray(n, np.uint64, memory, layout.keys)
        self.probabilities: NDArray[np.float32] = np.ndarray(
            n, np.float32, memory, layout.probabilities
        )
        self.length: NDArray[np.uint32] = np.ndarray(n, np.uint32, memory, layout.lengths)
        self.views = Views(layout, buffer, self.length)
        self.item_count = int(header["item_count"])
        self.env_steps = int(header["env_steps"])
        self.items_created = int(header["items_created"])
        self.items_drawn = int(header["items_drawn"])
        self.priority_mass = float(header["priority_mass"])
        self._head: int | NDArray[np.uint64] = int(header["head"])
        if layout.shards > 1:
            self._head = np.ndarray(layout.shards, np.uint64, memory, layout.reply_bytes)

    def __len__(self) -> int:
        return len(self.keys)

    def tensors(self, device: str = "cpu") -> dict[str, torch.Tensor]:
        """The views as torch tensors by name; on the CPU they share this batch's memory."""
        import torch

        return {name: torch.from_numpy(view).to(device) for name, view in self.views.items()}

    @property
    def age(self) -> NDArray[np.int64]:
        numbers = (self.keys & _NUMBER_BITS).astype(np.int64)
        if isinstance(self._head, int):
            return np.asarray((self._head & int(_NUMBER_BITS)) - numbers, np.int64)
        heads = (self._head & _NUMBER_BITS).astype(np.int64)
        return np.asarray(heads[self.keys >> _SHARD_SHIFT] - numbers, np.int64)


def importance_weights(batch: Batch, beta: float) -> NDArray[np.float32]:
    """float32 [n]: (item_count * probability) ** -beta, divided by the batch's maximum
    (Schaul et al., 2016, "Prioritized Experience Replay", section 3.4)."""
    weights = (batch.item_count * batch.probabilities.astype(np.float64)) ** -beta
    return np.asarray(weights / weights.max(), np.float32)
