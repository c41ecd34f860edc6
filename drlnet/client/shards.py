"""A client's sessions with a server of several shards, as one session.

Every shard holds its part of each table. A stream belongs to one shard: its ordinal, modulo their
number, says which. A writer's streams are shared out, so that few of them fill the whole table.
Params, pings and what a client reports of itself go to the first shard.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.errors import BadPriority, ConfigError, DrlnetError, TransportError
from drlnet.native import TableSpec

Lease = tuple[int, int, int, int]  # ordinal, epoch, token, next_step


def connect(address: str, name: str, timeout: float, poll: str) -> native.Client | ShardedSession:
    """A session with the server whose first shard listens at `address`.

    Raises TransportError when nothing answers, or another server where a shard of it should be.
    """
    first = native.Client(address, name, timeout, poll)
    if first.shard != 0:
        raise ConfigError(
            f"{address} is shard {first.shard} of a server of {first.shards}",
            "pass the address that the server printed when it was ready",
        )
    if first.shards == 1:
        return first
    sessions = [first]
    for shard in range(1, first.shards):
        place = native.shard_address(address, shard)
        session = native.Client(place, name, timeout, poll)
        if (session.shard, session.boot) != (shard, first.boot):
            raise TransportError(
                f"{place} is not shard {shard} of the server at {address}",
                "see that its shards' addresses, next to its own, lead to the same server",
            )
        sessions.append(session)
    return ShardedSession(sessions)


class ShardedSession:
    """What native.Client is to a server that is one alone. Threading: as that."""

    def __init__(self, sessions: Sequence[native.Client]) -> None:
        self._sessions = list(sessions)
        self._tables: list[native.ShardedTable] = []
        self._turns: list[int] = []  # of each table: which shard gets the next stream
        self.shards = len(self._sessions)

    def open_table(self, spec: TableSpec) -> int:
        """The table's number in the other calls."""
        table = native.ShardedTable(self._sessions, spec)
        self._tables.append(table)
        self._turns.append(table.first_shard)
        return len(self._tables) - 1

    def writer(
        self,
        table: int,
        spec: TableSpec,
        streams: int,
        resume: Sequence[Lease],
        flush_rows: int,
        flush_interval_s: float,
        timeout_s: float,
    ) -> ShardedWriter:
        """Leases streams of all shards, as evenly as can be, or resumes each where it is."""
        homes = [lease[0] % self.shards for lease in resume] or self._homes(table, streams)
        parts: list[_Part] = []
        try:
            for home, group in itertools.groupby(range(len(homes)), homes.__getitem__):
                indices = list(group)
                held = [self._local(resume[index]) for index in indices] if resume else []
                writer = self._sessions[home].writer(
                    self._tables[table].number(home),
                    spec,
                    len(indices),
                    held,
                    flush_rows,
                    flush_interval_s,
                    timeout_s,
                )
                parts.append(_Part(writer, home, slice(indices[0], indices[-1] + 1)))
        except DrlnetError:
            if not resume:  # all or none
                for part in parts:
                    part.writer.release()
            raise
        return ShardedWriter(parts, self.shards)

    def _homes(self, table: int, streams: int) -> list[int]:
        """The shard of each new stream: runs of equal length, or longer by one."""
        turn, self._turns[table] = self._turns[table], self._turns[table] + streams
        least, more = divmod(streams, self.shards)
        return [
            (turn + i) % self.shards for i in range(self.shards) for _ in range(least + (i < more))
        ]

    def _local(self, lease: Lease) -> Lease:
        ordinal, epoch, token, next_step = lease
        return ordinal // self.shards, epoch, token, next_step

    def sample(
        self,
        table: int,
        layout: native.BatchLayout,
        memory: NDArray[np.uint8],
        timeout_s: float,
    ) -> None:
        self._tables[table].sample(layout, memory, timeout_s)

    def stream(
        self, table: int, layout: native.BatchLayout, buffers: Sequence[NDArray[np.uint8]]
    ) -> native.ShardedStream:
        return self._tables[table].stream(layout, buffers)

    def update_priorities(
        self, table: int, keys: NDArray[np.uint64], priorities: NDArray[np.float32], wait: bool
    ) -> tuple[int, int]:
        return self._tables[table].update_priorities(keys, priorities, wait)

    def read_items(
        self,
        table: int,
        layout: native.BatchLayout,
        keys: NDArray[np.uint64],
        memory: NDArray[np.uint8],
        timeout_s: float,
    ) -> None:
        self._refuse("read_items")

    def new_priorities(
        self, table: int, since: int
    ) -> tuple[NDArray[np.uint64], NDArray[np.float32], int, int, bool]:
        self._refuse("new_priorities")

    def _refuse(self, call: str) -> NoReturn:
        raise ConfigError(
            f"{call} asks a server that is one alone; this one has {self.shards} shards",
            "start it without --shards, or let it draw: table.sample()",
        )

    def set_timeout(self, timeout_s: float) -> None:
        for session in self._sessions:
            session.set_timeout(timeout_s)

    def ping_us(self, payload_bytes: int) -> float:
        return self._sessions[0].ping_us(payload_bytes)

    def publish(self, params: bytes) -> int:
        return self._sessions[0].publish(params)

    def fetch(self, newer_than: int) -> tuple[int, bytes]:
        return self._sessions[0].fetch(newer_than)

    def stats(self) -> dict[str, Any]:
        return _add_up([session.stats() for session in self._sessions])

    def own_stats(self) -> dict[str, Any]:
        own = [
            {f"client..{name}": value for name, value in session.own_stats().items()}
            for session in self._sessions
        ]
        return {name.removeprefix("client.."): value for name, value in _add_up(own).items()}

    def report(self, values: Mapping[str, int | float | str]) -> None:
        self._sessions[0].report(dict(values))
        for session in self._sessions[1:]:
            session.report({})  # that session's own figures


def _add_up(readings: Sequence[dict[str, Any]]) -> dict[str, Any]:
    # Imported when it is needed: runs and their settings come along, which few clients have.
    from drlnet.metrics.shards import add_up

    return add_up(readings)


class _Part:
    """The streams of a writer that one shard holds: a run of them."""

    def __init__(self, writer: native.StreamWriter, shard: int, streams: slice) -> None:
        self.writer = writer
        self.shard = shard
        self.streams = streams


class ShardedWriter:
    """What native.StreamWriter is to a server that is one alone. Threading: one thread."""

    def __init__(self, parts: Sequence[_Part], shards: int) -> None:
        self._parts = list(parts)
        self._shards = shards

    @property
    def leases(self) -> list[Lease]:
        return [
            (ordinal * self._shards + part.shard, epoch, token, next_step)
            for part in self._parts
            for ordinal, epoch, token, next_step in part.writer.leases
        ]

    @property
    def rows_stored(self) -> int:
        return sum(part.writer.rows_stored for part in self._parts)

    @property
    def items_created(self) -> int:
        return sum(part.writer.items_created for part in self._parts)

    @property
    def items_refused(self) -> int:
        return sum(part.writer.items_refused for part in self._parts)

    def append(
        self,
        columns: Sequence[NDArray[Any]],
        first: NDArray[np.bool_],
        last: NDArray[np.bool_],
        mask: NDArray[np.bool_],
        steps: NDArray[np.int64],
    ) -> None:
        for part in self._parts:
            streams = part.streams
            rows = [column[streams] for column in columns]
            part.writer.append(rows, first[streams], last[streams], mask[streams], steps[streams])

    def add_items(
        self,
        streams: NDArray[np.int64],
        steps: NDArray[np.int64],
        priorities: NDArray[np.float32],
    ) -> None:
        self._check(streams, priorities)
        for part in self._parts:
            mine = (streams >= part.streams.start) & (streams < part.streams.stop)
            given = priorities[mine] if len(priorities) else priorities
            part.writer.add_items(streams[mine] - part.streams.start, steps[mine], given)

    def _check(self, streams: NDArray[np.int64], priorities: NDArray[np.float32]) -> None:
        """Before any part has taken anything."""
        if ((streams < 0) | (streams >= self._parts[-1].streams.stop)).any():
            raise ConfigError(
                "an item names no row of this writer",
                "use the writer's stream indices and the steps that append() returned",
            )
        if not (np.isfinite(priorities) & (priorities >= 0)).all():
            raise BadPriority(
                "a priority is NaN, infinite or negative",
                "send finite priorities of 0 or more; no item of this call was added",
            )

    def flush(self) -> None:
        for part in self._parts:
            part.writer.flush()

    def release(self) -> None:
        for part in self._parts:
            part.writer.release()
