"""An open table: writers, samples and priorities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drlnet.client.arguments import (
    MOST_AHEAD,
    array,
    converting,
    number,
    path_text,
    seconds,
    whole,
    wrong,
)
from drlnet.client.batch import (
    NO_KEY,
    Batch,
    Batches,
    BatchLayout,
    BatchMemory,
    Drawn,
    SpareMemory,
)
from drlnet.client.mirror import Mirror
from drlnet.client.specs import Column, Item
from drlnet.client.writer import StreamLease, Writer
from drlnet.errors import ConfigError, cannot_write
from drlnet.metrics.whole import whole_file
from drlnet.native import Client as NativeClient
from drlnet.native import TableSpec, most_items

_Lease = tuple[int, int, int, int]


class PriorityChanges(NamedTuple):
    """Items that were created or got another priority, for a client with a sampler of its own.

    keys: uint64 [k], each once, in the order of their last changes. priorities: float32 [k], as the
    server stores them (the exponent applied), 0 for items that are gone.
    next: what to ask from the next time. oldest: items with keys under it are gone, named or not.
    """

    keys: NDArray[np.uint64]
    priorities: NDArray[np.float32]
    next: int
    oldest: int


_UINT32 = 2**32 - 1
_KEY, _PRIORITY = np.dtype(np.uint64), np.dtype(np.float32)
_MOST_READ, _READ_BYTES = 4096, 64 << 20  # items that export() reads at once, about
# An append carries this many steps of each stream, as actors' do, within these numbers of rows: an
# append of one or two is mostly the streams' names, and wakes the server for little.
_FLUSH_STEPS, _LEAST_FLUSH_ROWS, _MOST_FLUSH_ROWS = 8, 64, 512


class Table:
    """Made by Client.table(). Threads may share it; writers and streams are one thread's each."""

    def __init__(
        self,
        client: NativeClient,
        spec: TableSpec,
        columns: Mapping[str, Column],
        item: Item,
        *,
        limited: bool,
    ) -> None:
        self._client = client
        self._spec = spec
        self._columns = dict(columns)
        self._item = item
        self._limited = limited  # it takes no more items at once than its limiter's error buffer
        self._number = client.open_table(spec)
        self._layouts: dict[tuple[int, int], BatchLayout] = {}
        self._spare = SpareMemory()
        self.name = spec.name

    def __repr__(self) -> str:
        columns = ", ".join(
            f"{name} {column.dtype}{list(column.shape)}" for name, column in self._columns.items()
        )
        return (
            f"<Table {self.name!r} of {self._spec.capacity:,} rows: {columns}; "
            f"items: {', '.join(self._item.views)}>"
        )

    def writer(
        self,
        num_streams: int,
        *,
        resume: Sequence[StreamLease] = (),
        flush_rows: int | None = None,
        flush_interval_s: float = 0.005,
        timeout: float = 60.0,
        held: Callable[[float], None] | None = None,
    ) -> Writer:
        """Leases streams (or resumes those given) and returns a writer for them.

        resume: leases of another writer, of any process: each stream goes on at the step that the
        server expects, which `leases` of the new writer says, in the episode that was under way.
        What the former writer had not flushed is lost; it should not append any more.
        Rows travel when flush_rows have gathered (None: 8 of each stream, within 64 to 512, but 64
        where samples_per_insert limits), or at the first append flush_interval_s after the oldest;
        to a queue also when half of it holds no more beside a batch, and where samples_per_insert
        limits with error_buffer / samples_per_insert items at most: more could block both sides.
        timeout: seconds that an append may wait, for the limiter as well.
        held: where given, an append waits for the limiter without end; held is called about every
        second of such a wait with its seconds, and ends it by raising.
        Raises ServerFull, UnknownLease (resume), ReplayTimeout, ConfigError.
        """
        num_streams = whole("num_streams", num_streams, 1, _UINT32)
        leases = _leases(resume)
        if leases and len(leases) != num_streams:
            raise ConfigError(
                f"a writer of {num_streams} streams to resume {len(leases)}",
                "make num_streams the number of leases to resume",
            )
        if flush_rows is None:
            most = _LEAST_FLUSH_ROWS if self._limited else _MOST_FLUSH_ROWS
            flush_rows = max(_LEAST_FLUSH_ROWS, min(most, _FLUSH_STEPS * num_streams))
        if held is not None and not callable(held):
            raise wrong("held", held, "give a function of the seconds waited, or None")
        native = self._client.writer(
            self._number,
            self._spec,
            num_streams,
            leases,
            whole("flush_rows", flush_rows, 1, _UINT32),
            number("flush_interval_s", flush_interval_s),
            number("timeout", timeout),
            held,
        )
        return Writer(native, self._columns)

    def sample(self, n: int, *, timeout: float | None = 60.0) -> Batch:
        """Draws n items with replacement. A batch larger than the table is legal.

        Raises ReplayTimeout, which says whether it waited for the limiter, the server or the
        network; SampleExpired when the rows were overwritten before they had all arrived.
        """
        memory = BatchMemory(self._layout(n, self._client.shards))
        self._client.sample(self._number, memory.layout, memory.bytes, seconds(timeout))
        return Batch(memory)

    def stream(self, n: int, *, depth: int = 2, timeout: float | None = 60.0) -> Batches:
        """Batches without end, `depth` of them requested ahead of their use.

        Each batch is lent: its arrays are overwritten once the one after it is asked for.
        Raises as sample() does; after a ReplayTimeout iteration ends. One thread at a time takes
        batches: ConfigError for another.
        """
        layout = self._layout(n, self._client.shards)
        depth = whole("depth", depth, 0, MOST_AHEAD)
        return Batches(self._drawn(layout, depth, seconds(timeout)))

    def _drawn(self, layout: BatchLayout, depth: int, timeout_s: float) -> Drawn:
        buffers = [BatchMemory(layout) for _ in range(depth + 1)]
        ahead = self._client.stream(
            self._number, layout.native, [buffer.bytes for buffer in buffers]
        )
        while True:
            yield Batch(buffers[ahead.next(timeout_s)])

    def mirror(self, *, rank: int = 0, world: int = 1, device: str | None = None) -> Mirror:
        """Follows the table: its rows travel to this process once, and batches name them.

        rank, world: of several learners that draw from it, this is the rank-th. With as many
        shards as learners each follows its own shard, and draws from that one alone; else each
        follows all rows, and its draws are a part of one draw of all of them. Probabilities are
        those of that draw.
        device: a torch device, as "cuda". Rows of 64 bytes and more lie there, too, and views of
        them are torch tensors on it.
        Raises ConfigError for a queue, for a server in the client's own thread, and where the rows
        take more memory than the machine, or the device, has left.
        """
        parts = whole("rank", rank, 0, _UINT32), whole("world", world, 1, _UINT32)
        if device is None:
            native = self._client.mirror(self._spec, *parts, [])
            return Mirror(native, lambda n: self._layout(n, self._client.shards), self._update)
        from drlnet.client.device_rows import DeviceRows, apart, device_named, numbered

        on = device_named(device)
        columns, away = self._columns, apart(self._columns)
        spec, shown = self._spec.numbered(away), numbered(columns)
        shards, spare, item = self._client.shards, self._spare, self._item
        native = self._client.mirror(self._spec, *parts, away)
        views = {name: view.column for name, view in item.views.items()}
        return Mirror(
            native,
            lambda n: BatchLayout(spec, shown, item, whole("n", n, 1, most_items), shards, spare),
            self._update,
            DeviceRows(columns, native.places, on),
            {name: column for name, column in views.items() if away[[*columns].index(column)]},
        )

    def read_items(self, keys: ArrayLike, *, timeout: float | None = 60.0) -> Batch:
        """The items with these keys, uint64 [n], in their order: for a sampler of your own.

        The batch's `probabilities` are the items' stored priorities, to be replaced by the chances
        that they were drawn with. What is not held has the key NO_KEY, priority 0, length 0, and
        views of zeros. Counts as no draw. Raises as sample() does, ConfigError for 0 or over 8,191
        keys.
        """
        self._require_alone("read_items")
        return self._read(keys, 0, timeout)

    def export(self, path: str | Path, *, timeout: float | None = 60.0) -> int:
        """Writes all items to a file of numpy's, "items.npz", and returns their number.

        np.load(path) has keys uint64 [n], in their order; priorities float32 [n], as the server
        stores them; lengths uint32 [n]; and view.NAME [n, ...] of each view. An item that goes
        while they are read is left out. Takes the memory of all items here, and what
        new_priorities() needs at the server. A file that was there stays until all is written.
        Raises as read_items() does.
        """
        named = path_text("path", path)
        none = BatchMemory(self._layout(1, 1))  # the shapes and dtypes of no items
        turn = max(1, min(_MOST_READ, _READ_BYTES // len(none.bytes)))
        kept = []
        for shard in range(self._client.shards):
            keys = np.sort(self._changes(0, shard).keys)
            for begin in range(0, len(keys), turn):
                kept.append(self._read(keys[begin : begin + turn], shard, timeout))
        held = [batch.keys != NO_KEY for batch in kept]

        def all_of(parts: Iterable[NDArray[Any]], empty: NDArray[Any]) -> NDArray[Any]:
            chosen = [part[there] for part, there in zip(parts, held, strict=True)]
            return np.concatenate(chosen) if chosen else empty

        arrays = {
            "keys": all_of((batch.keys for batch in kept), none.keys[:0]),
            "priorities": all_of((b.probabilities for b in kept), none.probabilities[:0]),
            "lengths": all_of((batch.length for batch in kept), none.length[:0]),
        }
        for name, view in none.views.items():
            arrays[f"view.{name}"] = all_of((batch.views[name] for batch in kept), view[:0])
        named = named if named.endswith(".npz") else f"{named}.npz"  # as numpy does
        try:
            with whole_file(Path(named)) as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        except OSError as error:
            raise cannot_write(str(path), error, "choose another file") from error
        return len(arrays["keys"])

    def empty(self) -> None:
        """Drops all rows and items, for every client; the table and its settings stay.

        Streams go on at their next steps; their older rows can no longer become items. Totals
        (env_steps, items_created) go on as well. What another writer sends meanwhile may come
        before or after it: flush() first. With several shards one is emptied after another.
        """
        self._client.empty_table(self._number)

    def drop(self) -> None:
        """Removes the table from the server, for every client, and frees its memory.

        Requests that wait for it (a held append, a draw) and every later call of a handle, writer
        or stream raise TableDropped. Its name is free: client.table() makes a new one, of any
        columns, which has its own handles. Dropping it once more changes nothing.
        """
        self._client.drop_table(self._number)

    def new_priorities(self, since: int = 0) -> PriorityChanges:
        """Returns what changed after `since`: 0, or `next` of the answer before.

        Own updates are in it, too, those under way as well. The server keeps up to 16 bytes per row
        for it from the first call on. Raises ConfigError for a server of several shards.
        """
        self._require_alone("new_priorities")
        return self._changes(whole("since", since), 0)

    def _changes(self, since: int, shard: int) -> PriorityChanges:
        pages, known = [], since > 0
        more = True
        while more:
            *page, since, oldest, more = self._client.new_priorities(self._number, shard, since)
            pages.append(page)
        keys, priorities = (np.concatenate(part) for part in zip(*pages, strict=True))
        # The server names an item once for each of its changes, and one that is gone to all.
        last = len(keys) - 1 - np.unique(keys[::-1], return_index=True)[1]
        last = np.sort(last if known else last[priorities[last] > 0])
        return PriorityChanges(keys[last], priorities[last], since, oldest)

    def update_priorities(self, keys: ArrayLike, priorities: ArrayLike) -> tuple[int, int]:
        """Sets raw priorities, float [k], of the items with these keys, uint64 [k].

        Returns (applied, stale): stale keys name items that were evicted since, and are ignored.
        Raises BadPriority for NaN, infinite or negative ones; none is applied then.
        """
        return self._update(keys, priorities, wait=True)

    def update_priorities_async(self, keys: ArrayLike, priorities: ArrayLike) -> None:
        """The same without waiting for the answer; its errors are raised by a later call."""
        self._update(keys, priorities, wait=False)

    def _update(self, keys: ArrayLike, priorities: ArrayLike, *, wait: bool) -> tuple[int, int]:
        names = array("keys", keys, _KEY)
        values = array("priorities", priorities, _PRIORITY)
        return self._client.update_priorities(self._number, names, values, wait)

    def _read(self, keys: ArrayLike, shard: int, timeout: float | None) -> Batch:
        names = array("keys", keys, _KEY)
        if not len(names):
            raise ConfigError("0 keys in one request", "read one item or more")
        memory = BatchMemory(self._layout(len(names), 1))
        self._client.read_items(
            self._number, shard, memory.layout, names, memory.bytes, seconds(timeout)
        )
        return Batch(memory)

    def _require_alone(self, call: str) -> None:
        """Raises ConfigError where the server has several shards."""
        if self._client.shards > 1:
            raise ConfigError(
                f"{call} asks a server that is one alone, not {self._client.shards} shards",
                "start it without --shards, or let it draw: table.sample()",
            )

    def _layout(self, n: int, shards: int) -> BatchLayout:
        """Returns that of a batch of n items from that many shards."""
        try:
            return self._layouts[n, shards]
        except (KeyError, TypeError):  # not asked for before, or nothing that can be
            n = whole("n", n, 1, most_items)
        layout = BatchLayout(self._spec, self._columns, self._item, n, shards, self._spare)
        self._layouts[n, shards] = layout
        return layout


def _leases(resume: Sequence[StreamLease]) -> list[_Lease]:
    """The leases as the extension takes them. Raises ConfigError."""
    least, most = (0, 0, 0, 0), (_UINT32, _UINT32, 2**64 - 1, 2**64 - 1)
    with converting("resume"):
        each = [list(zip(StreamLease._fields, lease, least, most, strict=True)) for lease in resume]
    checked = []
    for lease in each:
        ordinal, epoch, token, step = (whole(f"resume: {name}", *rest) for name, *rest in lease)
        checked.append((ordinal, epoch, token, step))
    if len({ordinal for ordinal, *_ in checked}) < len(checked):
        raise ConfigError("resume: two leases are of one stream", "give the lease of each once")
    return checked
