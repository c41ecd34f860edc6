"""Layout (b) on Redis, as its users build it: rows as values, new priorities in a list, others' in
a hash, and a learner with a sum tree of its own.

A learner's batch takes LPOP (what is new), a draw, MGET (the rows); an update takes HSET. An actor
sends a row and the priority of the item that it completes in one pipeline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.paper.access import Access, Buffer
from drlnet.bench.paper.phases import CHUNK_S, Diary, Say
from drlnet.bench.paper.workloads import SHAPES, Layout, Workload
from drlnet.bench.peers.numpy_tree import NumpyTree
from drlnet.errors import TransportError
from drlnet.launch.signals import Stop

if TYPE_CHECKING:
    import redis

_NEW, _HERE, _PRIORITIES, _ACTORS = "new", "here", "priorities", "actors"
_RING = 1024  # rows that each actor writes in turn
_RECORD = np.dtype([("row", "<u4"), ("priority", "<f4")])
_FILL, _MOST_NEW, _MEETING_S = 256, 65536, 60.0
_CONNECT_TRIES, _CONNECT_EVERY_S = 200, 0.05


@contextmanager
def _connected(address: str) -> Iterator[redis.Redis]:
    """A connection to a server that may still be starting; its errors become ours."""
    import redis
    from redis.backoff import ConstantBackoff
    from redis.exceptions import ConnectionError as NotThere
    from redis.exceptions import RedisError
    from redis.retry import Retry

    try:
        starting = Retry(ConstantBackoff(_CONNECT_EVERY_S), _CONNECT_TRIES)
        with redis.Redis.from_url(
            address, retry=starting, retry_on_error=[NotThere], socket_connect_timeout=5
        ) as first:
            first.ping()
        with redis.Redis.from_url(address, retry=Retry(ConstantBackoff(0), 0)) as client:
            yield client
    except RedisError as error:
        raise TransportError(
            f"{address}: {error}", "look whether redis-server still runs"
        ) from None


def _name(row: int) -> str:
    return f"r{row}"


class RedisReplay:
    """What a learner does for a batch. out: rows of the items one after the other."""

    def __init__(self, client: Any, shape: str, rows: int) -> None:
        self._client = client
        self._shape = SHAPES[shape]
        self._rows = rows
        self._tree = NumpyTree(np.ones(rows, np.float32))
        self._offsets = np.arange(-3, 2) if self._shape.stacked else np.arange(1)
        self._drawn = np.empty(0, np.int64)
        self._random = np.random.default_rng(0)

    def sample(self, batch: int, out: Buffer) -> None:
        """Learns what is new, draws, fetches."""
        records = self._client.lpop(_NEW, _MOST_NEW)
        if records:
            new = np.frombuffer(b"".join(records), _RECORD)
            self._tree.update(new["row"].astype(np.int64), new["priority"])
        self._drawn, _ = self._tree.draw(batch)
        # At the seam of a ring a stack has the wrong neighbours: as many bytes, no matter here.
        wanted = (self._drawn[:, None] + self._offsets).clip(0, self._rows - 1)
        found = self._client.mget([_name(row) for row in wanted.flat])
        place, size = out.data, self._shape.row_bytes
        for index, row in enumerate(found):
            place[index * size : (index + 1) * size] = row

    def update(self, keys: NDArray[Any], priorities: NDArray[np.float32]) -> None:
        """Writes priorities of the last batch back."""
        mapping = dict(zip(self._drawn.tolist(), priorities.tolist(), strict=True))
        self._client.hset(_PRIORITIES, mapping=mapping)
        self._tree.update(self._drawn, priorities)

    def samples(
        self, batch: int, out: Buffer, latencies_ns: NDArray[np.uint64], budget_s: float
    ) -> int:
        """A timed loop of batches."""
        return _timed(latencies_ns, budget_s, lambda: self.sample(batch, out))

    def cycles(
        self, batch: int, out: Buffer, latencies_ns: NDArray[np.uint64], budget_s: float
    ) -> int:
        """A timed loop of batches and their updates."""
        errors = self._random.exponential(size=batch).astype(np.float32)

        def cycle() -> None:
            self.sample(batch, out)
            self.update(self._drawn, errors)

        return _timed(latencies_ns, budget_s, cycle)


def _timed(latencies: NDArray[np.uint64], budget_s: float, call: Callable[[], None]) -> int:
    end_ns = time.monotonic_ns() + int(budget_s * 1e9)
    for count in range(len(latencies)):
        before_ns = time.monotonic_ns()
        if before_ns >= end_ns:
            return count
        call()
        latencies[count] = time.monotonic_ns() - before_ns
    return len(latencies)


@contextmanager
def over_redis(address: str, shape: str, actors: int) -> Iterator[Access]:
    """A learner's access to a Redis server of its own, filled."""
    rows = SHAPES[shape].capacity + actors * _RING
    value = np.random.default_rng(0).bytes(SHAPES[shape].row_bytes)
    with _connected(address) as client:
        for start in range(0, rows, _FILL):
            client.mset({_name(row): value for row in range(start, min(start + _FILL, rows))})

        def wait_for_actors(count: int) -> None:
            for _ in range(count):
                if client.blpop([_HERE], timeout=_MEETING_S) is None:
                    raise TransportError(
                        f"{address}: not all of {count} actors came in {_MEETING_S:g} s",
                        "start them with the same --server",
                    )

        spec = SHAPES[shape].spec()
        yield Access(spec, {Layout.STORE: RedisReplay(client, shape, rows)}, wait_for_actors, {})


def act_on_redis(address: str, workload: Workload, stop: Stop, say: Say) -> None:
    """An actor that stores its steps in Redis."""
    shape = SHAPES[workload.shape]
    value = np.random.default_rng(1).bytes(shape.row_bytes)
    interval_s = 1 / workload.rate if workload.rate else 0.0
    latencies = np.empty(100_000, np.uint64)
    with _connected(address) as client, closing(Diary(say)) as diary:
        base = shape.capacity + (int(client.incr(_ACTORS)) - 1) * _RING
        client.rpush(_HERE, 1)
        step, due = 0, time.monotonic()

        def append() -> None:
            nonlocal step
            complete = np.array((base + (step - 1) % _RING, 1.0), _RECORD)
            with client.pipeline(transaction=False) as pipe:
                pipe.set(_name(base + step % _RING), value)
                pipe.rpush(_NEW, complete.tobytes())
                pipe.execute()
            step += 1

        while not stop.is_set():
            start_s = time.monotonic()
            count = 0
            while time.monotonic() < start_s + CHUNK_S and not stop.is_set():
                if interval_s:
                    due = max(due + interval_s, time.monotonic())
                    stop.wait(max(0.0, due - time.monotonic()))
                before_ns = time.monotonic_ns()
                append()
                latencies[count] = time.monotonic_ns() - before_ns
                count += 1
            diary.add(start_s, latencies[:count])
