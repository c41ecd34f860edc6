"""A drawn batch: arrays laid over the reply's bytes."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.client.arguments import number
from drlnet.client.specs import Column, Item, View
from drlnet.errors import ConfigError
from drlnet.native import TableSpec

if TYPE_CHECKING:
    import torch

# At hand, since numpy takes its time to find a type's dtype.
_UINT8, _UINT32, _UINT64 = np.dtype(np.uint8), np.dtype(np.uint32), np.dtype(np.uint64)
_FLOAT32 = np.dtype(np.float32)
_ViewPlace = tuple[tuple[int, ...], np.dtype[Any], int, tuple[int, ...]]
"""shape, dtype, offset, strides"""

NO_KEY = np.uint64(2**64 - 1)
"""In Table.read_items: the key of what is not held."""

_NUMBER_BITS = np.uint64((1 << 40) - 1)
_SHARD_SHIFT = np.uint64(56)


_LARGE_BYTES = 32 << 20  # above it glibc's malloc keeps nothing of what is freed


class SpareMemory:
    """Memory for large batches, and that of one whose arrays are gone, for the next one as large.

    New memory comes in pages that the kernel has to clear first, which takes a third of the time
    that a large batch does. Threads may share it.
    """

    def __init__(self) -> None:
        self._spare: deque[NDArray[np.uint8]] = deque(maxlen=1)

    def take(self, size: int) -> NDArray[np.uint8]:
        try:
            memory = self._spare.pop()
        except IndexError:
            memory = np.empty(0, _UINT8)
        if len(memory) != size:
            memory = np.empty(size, _UINT8)
        # From a memoryview: views of an array made from an array refer to the inner array.
        lent: NDArray[np.uint8] = np.frombuffer(memory.data, _UINT8)
        weakref.finalize(lent, self._spare.append, memory).atexit = False
        return lent


class BatchLayout:
    """Where the parts of a batch of n items lie (native/src/client/batch_layout.h), and behind
    them, of a server of several shards, the head of each."""

    def __init__(
        self,
        spec: TableSpec,
        columns: Mapping[str, Column],
        item: Item,
        n: int,
        shards: int,
        spare: SpareMemory,
    ) -> None:
        self.n = n
        self.native = places = native.BatchLayout(spec, n)
        self.keys = places.keys
        self.probabilities = places.probabilities
        self.lengths = places.lengths
        self.views = {
            name: _view_place(n, columns[view.column], view, *place)
            for (name, view), place in zip(item.views.items(), places.views, strict=True)
        }
        self.heads = places.memory_bytes
        self.shards = shards
        self._bytes = self.heads + (8 * shards if shards > 1 else 0)
        self._spare = spare

    def memory(self) -> NDArray[np.uint8]:
        """Memory for one batch, uninitialised."""
        if self._bytes > _LARGE_BYTES:
            return self._spare.take(self._bytes)
        return np.empty(self._bytes, _UINT8)


def _view_place(n: int, column: Column, view: View, offset: int, item_bytes: int) -> _ViewPlace:
    lo, hi = view.bounds
    stacked = () if isinstance(view.rows, int) else (hi - lo + 1,)
    dtype, shape = np.dtype(column.dtype), (*stacked, *column.shape)
    return (n, *shape), dtype, offset, (item_bytes, *np.empty(shape, dtype).strides)


class BatchMemory:
    """Memory for one batch, and the arrays over it."""

    def __init__(self, layout: BatchLayout) -> None:
        n = layout.n
        memory = layout.memory()
        self.layout = layout.native
        self.bytes = memory
        self.keys: NDArray[np.uint64] = np.ndarray(n, _UINT64, memory, layout.keys)
        self.probabilities: NDArray[np.float32] = np.ndarray(
            n, _FLOAT32, memory, layout.probabilities
        )
        self.length: NDArray[np.uint32] = np.ndarray(n, _UINT32, memory, layout.lengths)
        self.views: Mapping[str, NDArray[Any]] = MappingProxyType(
            {
                name: np.ndarray(shape, dtype, memory, offset, strides)
                for name, (shape, dtype, offset, strides) in layout.views.items()
            }
        )
        self.heads: NDArray[np.uint64] | None = None
        if layout.shards > 1:
            self.heads = np.ndarray(layout.shards, _UINT64, memory, layout.heads)


class Batch:
    """n items drawn with replacement; any run of those of one shard is as good as another.

    views: Mapping[str, array], as the item declares them: (n, *shape) or (n, rows, *shape) each;
    torch tensors where a mirror has their rows on a device.
    keys: uint64 [n], for update_priorities.
    probabilities: float32 [n], with which each item was really drawn.
    length: uint32 [n], each item's true number of steps m, at most the item's horizon.
    item_count: live items in the table when the batch was drawn.
    age: int64 [n], rows that were stored since the item's own (at its shard).
    env_steps, items_created, items_drawn: the table's totals; priority_mass: its sum of priorities.
    spent: the share of the run's budget that was spent when it came; a learner role says.
    least_expected: the least item_count x probability of the whole draw, where this is a part of
    one that several processes learn from; a learner role says.
    """

    item_count: int
    env_steps: int
    items_created: int
    items_drawn: int
    priority_mass: float
    spent: float = 0.0
    least_expected: float | None = None

    def __init__(self, memory: BatchMemory) -> None:
        """Lays arrays over what has come into that memory."""
        (
            self.item_count,
            head,
            self.env_steps,
            self.items_created,
            self.items_drawn,
            self.priority_mass,
        ) = memory.layout.align_views(memory.bytes)
        self._head: int | NDArray[np.uint64] = head if memory.heads is None else memory.heads
        self.views = memory.views
        self.keys = memory.keys
        self.probabilities = memory.probabilities
        self.length = memory.length

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        views = ", ".join(f"{name} {v.dtype}{list(v.shape)}" for name, v in self.views.items())
        return f"<Batch of {len(self)} out of {self.item_count:,} items: {views}>"

    def tensors(self, device: str = "cpu") -> dict[str, torch.Tensor]:
        """The views as torch tensors by name; on the CPU they share this batch's memory."""

        from drlnet.client.device_rows import device_named, moved

        to = device_named(device)
        return {name: moved(view, to) for name, view in self.views.items()}

    @property
    def age(self) -> NDArray[np.int64]:
        numbers = (self.keys & _NUMBER_BITS).astype(np.int64)
        if isinstance(self._head, int):
            return np.asarray((self._head & int(_NUMBER_BITS)) - numbers, np.int64)
        heads = (self._head & _NUMBER_BITS).astype(np.int64)
        return np.asarray(heads[self.keys >> _SHARD_SHIFT] - numbers, np.int64)


Drawn = Generator[Batch, None, None]


class Batches(Iterator[Batch]):
    """A stream's batches, to one thread at a time: the next one may overwrite the last."""

    def __init__(self, drawn: Drawn) -> None:
        self._drawn = drawn
        self._turn = threading.Lock()

    def __next__(self) -> Batch:
        """Raises ConfigError while another thread waits for a batch."""
        if not self._turn.acquire(blocking=False):
            raise ConfigError(
                "a stream of batches is used by two threads at once",
                "give each thread one of its own, or let one thread hand out the batches",
            )
        try:
            return next(self._drawn)
        finally:
            self._turn.release()

    def close(self) -> None:
        """Ends the stream. What it has asked for is thrown away when it comes."""
        with self._turn:
            self._drawn.close()


def importance_weights(batch: Batch, beta: float) -> NDArray[np.float32]:
    """float32 [n]: (item_count * probability) ** -beta, divided by the maximum of the batch, or of
    the draw that it is a part of (Schaul et al., 2016, "Prioritized Experience Replay", section
    3.4)."""
    probabilities = np.ascontiguousarray(batch.probabilities, np.float32)
    weights = np.empty(probabilities.shape, _FLOAT32)
    # The number of items is a factor of the maximum as well.
    native.importance_weights(probabilities, number("beta", beta), weights)
    if batch.least_expected is not None:
        least = batch.item_count * float(probabilities.min())
        weights *= (batch.least_expected / least) ** beta if least > 0 else 1.0
    return weights
