"""Redis as the shared store of Ape-X-like systems: it keeps rows, the learner samples.

Rows are strings under their slot's number, written by MSET and read by MGET through the C parser
(hiredis), as its client's documentation advises. Redis cannot draw by priority at this rate: the
learner keeps the tree, looks how many rows have come since, and writes priorities back, so that
others see them. The server is our own, on a Unix socket, with nothing written to disk.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import redis
from numpy.typing import NDArray

from drlnet.bench.peers import Remote
from drlnet.bench.peers.numpy import NumpyTree
from drlnet.bench.processes import PeerUnavailable
from drlnet.bench.replay.memory import Block, Drawn, Inserter
from drlnet.bench.shapes import Shape

_HEAD = "head"  # rows that were ever given a number


class Rows(Inserter):
    """One process's way to the rows."""

    def __init__(self, place: str, shape: Shape) -> None:
        self._redis = redis.Redis(unix_socket_path=place)
        self._capacity = shape.capacity
        columns = shape.whole_columns.items()
        self._row = np.dtype([(name, column.dtype, column.shape) for name, column in columns])

    def insert(self, block: Block) -> None:
        rows = np.empty(len(block["action"]), self._row)
        for name, column in block.items():
            rows[name] = column
        behind = int(self._redis.incrby(_HEAD, len(rows)))
        slots = [slot % self._capacity for slot in range(behind - len(rows), behind)]
        self._redis.mset({str(slot): row.tobytes() for slot, row in zip(slots, rows, strict=True)})

    def read(self, slots: NDArray[np.int64]) -> tuple[int, NDArray[Any]]:
        """How many rows there were ever, and these."""
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.get(_HEAD)
        pipeline.mget(slots.tolist())
        head, rows = pipeline.execute()
        return int(head), np.frombuffer(b"".join(rows), self._row)

    def write_priorities(self, slots: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        named = dict(zip(slots.tolist(), priorities.tolist(), strict=True))
        self._redis.hset("priorities", mapping=named)

    def head(self) -> int:
        return int(self._redis.get(_HEAD) or 0)

    def close(self) -> None:
        self._redis.close()


class Redis(Remote):
    includes = (
        "a server on a Unix socket: rows by MSET and MGET; the learner draws from a tree in numpy "
        "and writes priorities back by HSET"
    )

    _own: Rows

    def __init__(self, shape: Shape) -> None:
        if shutil.which("redis-server") is None:
            raise PeerUnavailable("no redis-server (apt-get install redis-server)")
        self._capacity = shape.capacity
        self._folder = tempfile.TemporaryDirectory(prefix="drlnet-redis-")
        place = str(Path(self._folder.name) / "socket")
        self._server = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL"),  # it dies with us, however we end
                *("redis-server", "--port", "0", "--unixsocket", place),
                *("--save", "", "--appendonly", "no", "--dir", self._folder.name),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout is not None
        for line in self._server.stdout:  # until it ends, if it cannot start
            if "eady to accept connections" in line:
                break
        super().__init__(partial(Rows, place, shape))
        self._tree = NumpyTree(np.zeros(shape.capacity, np.float32))
        self._maximum = np.float32(1)
        self._seen = 0  # rows that have a priority

    def wait_for_inserts(self) -> None:
        self._see(self._own.head())

    def _see(self, head: int) -> None:
        """Gives rows that have come the largest priority so far."""
        new = np.arange(max(self._seen, head - self._capacity), head)
        if len(new):
            priorities = np.full(len(new), self._maximum, np.float32)
            self._tree.update(new % self._capacity, priorities)
        self._seen = head

    def sample(self, batch: int) -> Drawn:
        slots, weights = self._tree.draw(batch)
        head, rows = self._own.read(slots)
        self._see(head)
        return slots, weights, rows

    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        self._tree.update(keys, priorities)
        self._maximum = max(self._maximum, priorities.max())
        self._own.write_priorities(keys, priorities)

    def close(self) -> None:
        super().close()
        self._server.terminate()
        self._server.wait()
        self._folder.cleanup()
