"""A drawn batch: arrays laid over the reply's bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.client.specs import Column, Item, View
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


class BatchLayout:
    """Where the parts of a batch of n items lie (native/src/client/batch_layout.h), and behind
    them, of a server of several shards, the head of each."""

    def __init__(
        self, spec: TableSpec, columns: Mapping[str, Column], item: Item, n: int, shards: int
    ) -> None:
        self.n = n
        self.native = native.BatchLayout(spec, n)
        self.shards = shards
        self.views = {
            name: _ViewLayout(columns[view.column], view, *place)
            for (name, view), place in zip(item.views.items(), self.native.views, strict=True)
        }

    def memory(self) -> NDArray[np.uint8]:
        """Memory for one batch, uninitialised."""
        heads_bytes = 0 if self.shards == 1 else 8 * self.shards
        return np.empty(self.native.memory_bytes + heads_bytes, np.uint8)


class _ViewLayout:
    def __init__(self, column: Column, view: View, offset: int, item_bytes: int) -> None:
        lo, hi = view.bounds
        stacked = () if isinstance(view.rows, int) else (hi - lo + 1,)
        self._shape = (*stacked, *column.shape)
        self._dtype = np.dtype(column.dtype)
        self._offset = offset
        self._strides = (item_bytes, *np.empty(self._shape, self._dtype).strides)

    def over(self, memory: NDArray[np.uint8], n: int) -> NDArray[Any]:
        array: NDArray[Any] = np.ndarray(
            (n, *self._shape), self._dtype, memory.data, self._offset, self._strides
        )
        return array


class Views(Mapping[str, NDArray[Any]]):
    """The item's views by name, (n, *shape) or (n, rows, *shape) each, made when asked for."""

    def __init__(self, layout: BatchLayout, memory: NDArray[np.uint8]) -> None:
        self._layout = layout
        self._memory = memory

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._layout.views[name].over(self._memory, self._layout.n)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout.views)

    def __len__(self) -> int:
        return len(self._layout.views)


class Batch:
    """n items drawn with replacement; any run of those of one shard is as good as another.

    views: Mapping[str, array], as the item declares them.
    keys: uint64 [n], for update_priorities.
    probabilities: float32 [n], with which each item was really drawn.
    length: uint32 [n], each item's true number of steps m, at most the item's horizon.
    item_count: live items in the table when the batch was drawn.
    age: int64 [n], rows that were stored since the item's own (at its shard).
    env_steps, items_created, items_drawn: the table's totals; priority_mass: its sum of priorities.
    """

    def __init__(self, layout: BatchLayout, memory: NDArray[np.uint8]) -> None:
        n, places, buffer = layout.n, layout.native, memory.data
        places.settle(memory)
        header = np.ndarray((), _HEADER, buffer, 0)
        self.keys: NDArray[np.uint64] = np.ndarray(n, np.uint64, buffer, places.keys)
        self.probabilities: NDArray[np.float32] = np.ndarray(
            n, np.float32, buffer, places.probabilities
        )
        self.length: NDArray[np.uint32] = np.ndarray(n, np.uint32, buffer, places.lengths)
        self.views = Views(layout, memory)
        self.item_count = int(header["item_count"])
        self.env_steps = int(header["env_steps"])
        self.items_created = int(header["items_created"])
        self.items_drawn = int(header["items_drawn"])
        self.priority_mass = float(header["priority_mass"])
        self._head: int | NDArray[np.uint64] = int(header["head"])
        if layout.shards > 1:
            self._head = np.ndarray(layout.shards, np.uint64, buffer, places.memory_bytes)

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
