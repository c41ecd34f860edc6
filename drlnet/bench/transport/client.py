"""The measuring side: every cell of one server, called from here or from a process of its own.

Nothing of Python lies in a timed loop: each is native (native/src/measure/calls.h).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench.cores import pinned
from drlnet.bench.filling import fill, writer
from drlnet.bench.rounds import Effort, Timed
from drlnet.bench.transport.cells import (
    BATCH,
    BATCH_ROWS,
    CELLS,
    FRAME_BYTES,
    PAYLOADS,
    Cell,
    Measured,
)
from drlnet.client import Column, Item, Limiter, Sampler, View
from drlnet.client.specs import native_spec

_ROWS = 4096  # of a table: 29 MB of frames, which no cache close to a core holds
_DEPTH = 4  # batches under way, as a learner's prefetch
_TIMEOUT_S = 10.0


def measure(
    address: str,
    poll: str,
    effort: Effort,
    *,
    core: int | None = None,
    cells: tuple[Cell, ...] = CELLS,
) -> Iterator[Measured]:
    """Measures the cells of a fresh server, one after the other.

    core: where the calling thread runs, for a polling one. Raises what a client's calls raise.
    """
    with pinned(core):
        client = native.Client(address, "bench", _TIMEOUT_S, poll)
        yield from measure_calls(client, effort, cells)


def measure_calls(
    client: native.Client, effort: Effort, cells: tuple[Cell, ...]
) -> Iterator[Measured]:
    """Measures the cells by the calls of a client whose server has no tables yet."""
    tables: dict[int, _Table] = {}
    for op, payload in cells:
        size = FRAME_BYTES if payload == BATCH else PAYLOADS[payload]
        if op in {"append", "sample", "update", "sampled bytes"} and size not in tables:
            tables[size] = _Table(client, size)
        timed = _timed(client, tables.get(size), op, payload)
        yield Measured(op, payload, effort.latencies_us(timed))


def _timed(client: native.Client, table: _Table | None, op: str, payload: str) -> Timed:
    """The native loop of a cell, with all it needs but the array and the time."""
    if op == "ping":
        return lambda out, s: native.measure_pings(client, PAYLOADS[payload], out, s)
    if op == "fetch":
        client.publish(bytes(PAYLOADS[payload]))
        return lambda out, s: native.measure_fetches(client, out, s)
    assert table is not None
    if op == "append":
        row = np.ones(table.row_bytes, np.uint8)
        return lambda out, s: native.measure_appends(table.writer, row, out, s)
    if op == "update":
        # As many keys (8 B) and priorities (4 B) as the payload holds behind 8 B of header.
        keys = table.sampled_keys((PAYLOADS[payload] - 8) // 12)
        priorities = np.ones(len(keys), np.float32)
        return lambda out, s: native.measure_updates(client, table.number, keys, priorities, out, s)
    batch = BATCH_ROWS if payload == BATCH else 1
    if op == "sample":
        buffer = table.buffer(batch)
        return lambda out, s: native.measure_samples(client, table.number, batch, buffer, out, s)
    buffers = [table.buffer(batch) for _ in range(_DEPTH)]
    return lambda out, s: native.measure_streamed_samples(
        client, table.number, batch, buffers, out, s
    )


@dataclass
class _Table:
    """A full table of rows of one size, an item on each."""

    client: native.Client
    row_bytes: int
    spec: native.TableSpec = field(init=False)
    number: int = field(init=False)
    writer: native.StreamWriter = field(init=False)

    def __post_init__(self) -> None:
        self.spec = native_spec(
            f"rows of {self.row_bytes} B",
            {"row": Column("uint8", (self.row_bytes,))},
            Item({"row": View("row")}),
            _ROWS,
            Sampler(),
            Limiter(),
            seed=0,
        )
        self.number = self.client.open_table(self.spec)
        fill(self.client, self.number, self.spec, self.row_bytes, _ROWS)
        # It never flushes by itself: the timed loop does, when a row's item is there, too.
        self.writer = writer(self.client, self.number, self.spec, streams=1, flush_rows=2)

    def buffer(self, batch: int) -> NDArray[np.uint8]:
        """Memory for one reply."""
        return np.empty(self._layout(batch)["total_bytes"], np.uint8)

    def sampled_keys(self, count: int) -> NDArray[np.uint64]:
        """Keys of items that are alive now."""
        buffer = self.buffer(count)
        self.client.sample(self.number, count, buffer, _TIMEOUT_S)
        start: int = self._layout(count)["keys"]
        return np.frombuffer(buffer, np.uint64, count, start)

    def _layout(self, batch: int) -> dict[str, Any]:
        return cast(dict[str, Any], self.spec.layout(batch))
