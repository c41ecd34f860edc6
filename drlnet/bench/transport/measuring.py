"""What is measured of a transport: the measuring process, and what stands beside it.

Nothing of Python lies in a timed loop: each is native (native/measure/calls.h).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.engine import Effort, Timed
from drlnet.bench.machine import Cores, pinned
from drlnet.bench.measure import Appender, Session, copies, handovers
from drlnet.bench.shapes import Rows, bytes_of
from drlnet.config.keys import client_key
from drlnet.native import TableSpec

FRAME_BYTES = 84 * 84  # one Atari frame: "7 KB"
PAYLOADS = {"64 B": 64, "1 KiB": 1024, "7 KB frame": FRAME_BYTES, "8 KiB": 8192}
BATCH, _BATCH_ROWS = "1.8 MB batch", 256
BATCH_BYTES = _BATCH_ROWS * FRAME_BYTES
Cell = tuple[str, str]  # operation, payload
CELLS: tuple[Cell, ...] = (
    *(("ping", payload) for payload in PAYLOADS),
    # Their headers leave no room for 8 KiB in a frame.
    *((op, payload) for op in ("append", "sample", "update", "fetch")
      for payload in list(PAYLOADS)[:-1]),
    ("sample", BATCH),
    ("appended bytes", BATCH),  # several under way: a latency is the time from one to the next
    ("sampled bytes", BATCH),
)  # fmt: skip
_ROWS = 4096  # of a table: 29 MB of frames, which no cache close to a core holds
_DEPTH = 4  # batches under way, as a learner's prefetch
_TIMEOUT_S = 10.0


class Client:
    """The measuring side: a session at a fresh server. Called from another process (Worker)."""

    def open(self, address: str, poll: str, keys: Path | None = None) -> None:
        """Connects, with the learner's key of that folder. Raises what a client raises."""
        key = b"" if keys is None else client_key(keys)
        self._session: Session | None = Session(address, "bench", _TIMEOUT_S, poll, key)
        self._tables: dict[int, Filled] = {}

    def measure(self, op: str, payload: str, effort: Effort) -> NDArray[np.float64]:
        """Latencies of one cell, us."""
        return effort.latencies_us(self._timed(op, payload))

    def shut(self) -> None:
        """Ends the session."""
        self._tables.clear()
        self._session = None

    def _timed(self, op: str, payload: str) -> Timed:
        """The native loop of a cell, with all it needs but the array and the time."""
        session, size = self._session, PAYLOADS.get(payload, FRAME_BYTES)
        assert session is not None
        if op == "ping":
            return partial(session.pings, size)
        if op == "fetch":
            session.publish(bytes(size))
            return session.fetches
        if size not in self._tables:
            spec = Rows("", (size,), _ROWS).spec(f"rows of {size} B")
            self._tables[size] = Filled(session, spec, _ROWS)
        table = self._tables[size]
        if op == "append":
            return partial(table.appender.appends, np.ones(size, np.uint8))
        if op == "update":
            # As many keys (8 B) and priorities (4 B) as the payload holds behind 8 B of header.
            keys = table.sampled_keys((size - 8) // 12)
            return partial(session.updates, table.number, keys, np.ones(len(keys), np.float32))
        batch = _BATCH_ROWS if payload == BATCH else 1
        if op == "appended bytes":
            return partial(session.streamed_appends, table.number, table.spec, batch)
        if op == "sample":
            return partial(session.samples, table.number, batch, table.buffer(batch))
        buffers = [table.buffer(batch) for _ in range(_DEPTH)]
        return partial(session.streamed_samples, table.number, batch, buffers)


class Filled:
    """A full table of rows, an item on each, at the session's server."""

    def __init__(self, session: Session, spec: TableSpec, rows: int) -> None:
        self._session, self.spec = session, spec
        self.number = session.open_table(spec)
        session.fill(self.number, spec, rows)
        self.appender = Appender(session, self.number, spec)

    def buffer(self, batch: int) -> NDArray[np.uint8]:
        """Memory for one reply."""
        return np.empty(bytes_of(self.spec, batch), np.uint8)

    def sampled_keys(self, count: int) -> NDArray[np.uint64]:
        """Keys of items that are alive now."""
        buffer, one = self.buffer(count), np.empty(1, np.uint64)
        self._session.samples(self.number, count, buffer, one, _TIMEOUT_S)
        offset = cast(int, self.spec.layout(count)["keys"])
        return np.frombuffer(buffer, np.uint64, count, offset)


def measure_handovers(effort: Effort, cores: Cores) -> dict[Cell, NDArray[np.float64]]:
    """Round trips of every payload between threads on both cores; none where there is but one."""
    if cores.server is None:
        return {}
    with pinned(cores.client):
        return {
            ("ping", payload): effort.latencies_us(partial(handovers, cores.server, size))
            for payload, size in PAYLOADS.items()
        }


def measure_copy(effort: Effort, cores: Cores) -> NDArray[np.float64]:
    """What no network can beat: a batch's rows copied from a table of frames into one place."""
    with pinned(cores.client):
        return effort.latencies_us(partial(copies, FRAME_BYTES, _ROWS, _BATCH_ROWS))
