"""Our server in a process of its own, its client here."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.machine import Cores
from drlnet.bench.peers import ALPHA, BETA
from drlnet.bench.processes import served
from drlnet.bench.replay.memory import BY, Block, Door, Drawn, Inserter, Memory, Step, blocks_of
from drlnet.bench.shapes import Shape
from drlnet.bench.transport.suite import Poll
from drlnet.client import Batch, Client, Mirror, Sampler, Table, Writer, importance_weights
from drlnet.errors import SampleExpired
from drlnet.launch.signals import Stop

DEPTH = 2  # batches requested ahead
_BESIDE = "udp://127.0.0.1:0"  # where clients that insert come in: blocking sockets


class _Appender(Inserter):
    """k streams of a table, one row of each in an append."""

    def __init__(self, writer: Writer, shape: Shape) -> None:
        count = writer.num_streams
        self._writer, self._shape = writer, shape
        self._streams = np.arange(count)
        self._yes, self._no = np.ones(count, bool), np.zeros(count, bool)
        self._begins = True  # an episode, with the next row
        self._columns = tuple(shape.columns)

    def insert(self, block: Block) -> None:
        """The rows in which the transitions begin, each with an item."""
        first = self._yes if self._begins else self._no
        columns = {name: block[name] for name in self._columns}
        if self._shape.stack > 1 and not self._shape.whole:
            columns["obs"] = block["obs"][:, -1]  # the newest: the others are in rows before
        steps = self._writer.append(columns, first, self._no)
        self._writer.add_items(self._streams, steps)
        self._begins = bool(block["terminated"][0])
        if self._begins:  # no item begins at the row in which the episode ends
            self._writer.append(columns, self._no, self._yes)

    def wait_for_inserts(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


def _table(client: Client, shape: Shape) -> Table:
    return client.table(
        "replay",
        columns=shape.columns,
        item=shape.item,
        capacity=shape.capacity,
        sampler=Sampler("prioritized", ALPHA),
    )


class _Visitor(_Appender):
    """A client that inserts from another process, and keeps off the core that a server polls on."""

    def __init__(self, address: str, shape: Shape, not_on: int | None) -> None:
        if not_on is not None:
            os.sched_setaffinity(0, os.sched_getaffinity(0) - {not_on})
        self._client = Client(address, name="inserting", poll="block")
        super().__init__(_table(self._client, shape).writer(BY), shape)

    def close(self) -> None:
        super().close()
        self._client.close()


class Ours(Memory):
    """`drlnet serve` on a core of its own, this process on another.

    listen: as serve takes it; poll: of server and client.
    """

    def __init__(self, listen: str, poll: Poll, shape: Shape) -> None:
        self._listen, self._poll, self._shape = listen, poll, shape
        self._start([listen])

    def _start(self, listen: Sequence[str]) -> None:
        """A server that listens there, and what its learner has of it."""
        cores = Cores.usable()
        with ExitStack() as stack:
            server = served(Stop(), listen, self._poll, core=cores.server)
            _, self._addresses = stack.enter_context(server)
            self._polled_core = cores.server if self._poll == "busy" else None
            if cores.client is not None:
                stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cores.client})
            self._client = self._connect()
            self._table = _table(self._client, self._shape)
            self._drawn_from = self._source(self._table)
            self._appenders = {
                count: _Appender(self._table.writer(count), self._shape) for count in (1, BY)
            }
            self._ending = stack.pop_all()

    def _source(self, table: Table) -> Table | Mirror:
        """What batches come from."""
        return table

    def _connect(self) -> Client:
        return Client(self._addresses[0], name="learner", poll=self._poll)

    def insert(self, block: Block) -> None:
        self._appenders[len(block["action"])].insert(block)

    def wait_for_inserts(self) -> None:
        for appender in self._appenders.values():
            appender.wait_for_inserts()

    def fill(self, blocks: Iterator[Block], capacity: int) -> None:
        # Rows that begin no item take places, too: once around the ring.
        super().fill(blocks, capacity + capacity // 10)

    def sample(self, batch: int) -> Drawn:
        while True:
            with suppress(SampleExpired):  # overwritten before it had come: the next is younger
                return _drawn(self._drawn_from.sample(batch))

    def update(self, keys: Any, priorities: NDArray[np.float32]) -> None:
        self._table.update_priorities(keys, priorities)

    @contextmanager
    def prefetching(self, batch: int) -> Iterator[Step]:
        # A session of its own: the thread that receives ahead is not to stand beside other calls.
        with self._connect() as client:
            table = _table(client, self._shape)
            stream = self._source(table).stream(batch, depth=DEPTH)

            def step(priorities: NDArray[np.float32]) -> None:
                keys, _, _ = _drawn(next(stream))
                table.update_priorities_async(keys, priorities)

            yield step

    def door(self) -> Door:
        # Only now: a server that polls looks into a socket at every turn, used or not.
        if not self._addresses[-1].startswith("udp:"):
            self.close()
            self._start([self._listen, _BESIDE])
            self.fill(blocks_of(self._shape), self._shape.capacity)
        return partial(_Visitor, self._addresses[-1], self._shape, self._polled_core)

    def close(self) -> None:
        self._appenders.clear()
        del self._drawn_from, self._table
        self._client.close()
        self._ending.close()


class Mirrored(Ours):
    """The same with the rows at the learner, to which each travels once."""

    def _source(self, table: Table) -> Table | Mirror:
        return table.mirror()

    @contextmanager
    def prefetching(self, batch: int) -> Iterator[Step]:
        # The mirror that is there has the rows: another would first fetch them all.
        stream = self._drawn_from.stream(batch, depth=DEPTH)

        def step(priorities: NDArray[np.float32]) -> None:
            keys, _, _ = _drawn(next(stream))
            self._table.update_priorities_async(keys, priorities)

        yield step

    def sent_bytes(self) -> int | None:
        total = 0
        for name, value in self._client.stats().items():
            if name.startswith("transport.") and name.endswith(".bytes_sent"):
                assert isinstance(value, int)
                total += value
        return total


def _drawn(batch: Batch) -> Drawn:
    """With every view made, as a loss would read it."""
    return batch.keys, importance_weights(batch, BETA), dict(batch.views)
