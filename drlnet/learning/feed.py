"""The feed: batches from the server's tables to the learner, and priorities back.

Data echoing (Choi et al., "Faster Neural Network Training with Data Echoing", arXiv 1907.05550):
each item that was drawn is learned from e = `learner.echo` times, so that a draw feeds e learner
steps. With n items in a batch and k = `learner.echo_buffer`:

    k = 1   batch echoing: a drawn batch is learned from whole, e times in a row
    k > 1   example echoing: a buffer holds k n items, each with the uses that it has left. A step
            takes n different ones of it, uniformly; where n places are free, a draw fills them

Before the first step, k batches are drawn. The paper's buffer holds e copies of an example, and a
batch may contain several of them; here it contains one at most, and each draw is used e times.

The paper trains supervised, on data that does not change, and leaves open what a replay adds.
- Priorities: an item's is sent once, after its last use, with that use's error. Until then it may
  be drawn again as what it was; items in use when a run ends keep theirs.
- Importance: an item's weight is that of its draw. A batch of several draws says the newest one's
  totals, and probabilities such that item_count x probability is each draw's own.
- Age: an item may be overwritten at the server while it is used; its late priority counts as stale.

Echoing saves draws: it helps a learner that waits for the link or for the server, up to e = what
a draw takes over what a step takes. It does not help one that is busy: its steps see fewer
different items and, as the limiter counts draws, its actors wait. Where environments are slow, a
higher `replay.samples_per_insert` uses each of their steps as often, out of the whole table.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Generator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from drlnet.algos import Algorithm, Held, Priorities, TableSettings
from drlnet.client import Batch, Mirror, Table
from drlnet.errors import ReplayTimeout
from drlnet.lazy import torch

_WAIT_S = 60.0  # for a batch, while no item comes
_LOOK_QUESTIONS = 100  # between looks at what tables hold

Last = slice | npt.NDArray[np.bool_]
"""Which items of a batch are used for the last time."""


class Feed:
    """The learner's tables, and a batch of each at a time. Not thread-safe."""

    def __init__(
        self,
        algorithm: Algorithm[Any],
        tables: Mapping[str, Table],
        seed: int,
        learner: object = None,
        stats: Callable[[], Mapping[str, Any]] = dict,
        rank: int = 0,
        parts: int = 1,
        device: str = "cpu",
    ):
        """seed: of the order in which example echoing uses items.

        learner: asked for the tables to draw from, where it chooses. stats: reads the server.
        rank, parts: a batch here is the rank-th of that many parts of a draw. device: torch's,
        where the learner is.
        """
        self._learner, self._choose = learner, getattr(learner, "choose", None)
        self._held, self._splits_rows = _Holdings(stats), algorithm.splits_rows
        self._stats = stats
        self._grown: dict[str, Any] = {}  # items of tables that a draw has waited for in vain
        self.env_steps: dict[str, int] = {}  # at the newest draw from each table, gone ones too
        self._chosen: Collection[str] | None = None  # for the next batches
        learner = algorithm.config.learner
        settings = {
            name: replace(one, batch_size=one.batch_size // parts)
            for name, one in algorithm.tables().items()
        }
        self._serial = algorithm.config.run.serial
        self.tables = tables
        self._mirrors: dict[str, Mirror] = {}
        if algorithm.config.replay.rows != "server":
            on = device if algorithm.config.replay.rows == "device" else None
            self._mirrors = {
                name: table.mirror(rank=rank, world=parts, device=on)
                for name, table in tables.items()
            }
        self._settings = settings
        self._streams = {name: self._stream(name) for name in settings}
        self._echoes: dict[str, Echo] = {
            name: ExampleEcho(learner.echo, learner.echo_buffer, one.batch_size, seed)
            if learner.echo > 1 and learner.echo_buffer > 1
            else BatchEcho(learner.echo)
            for name, one in settings.items()
        }
        self._last: dict[str, Last] = {}
        self._late: dict[str, Callable[[], None]] = {}  # by table
        self.batches: dict[str, Batch] = {}  # what the learner learns from

    @property
    def due(self) -> bool:
        """Whether a draw must come before the next batches."""
        return any(self._echoes[name].due for name in self._next())

    def draw(self) -> None:
        """Draws once from each table where that is due.

        Raises as Table.sample() does; ReplayTimeout once a minute has brought neither a batch nor
        an item: before its min_size a table may fill for long.
        """
        for name in self._next():
            if self._echoes[name].due:
                batch = self._drawn(name)
                # A table that a restarted learner has made again counts from 0.
                self.env_steps[name] = max(batch.env_steps, self.env_steps.get(name, 0))
                self._echoes[name].add(batch)

    def _drawn(self, name: str) -> Batch:
        while True:
            try:
                return next(self._streams[name])
            except ReplayTimeout:
                items = self._stats().get(f"table.{name}.items_created", 0)
                if items == self._grown.get(name, 0):
                    raise
                self._grown[name] = items
                self._streams[name] = self._stream(name)

    def _stream(self, name: str) -> Generator[Batch, None, None]:
        table = self._mirrors.get(name, self.tables[name])
        return _stream(table, self._settings[name])

    def take(self) -> Mapping[str, Batch]:
        """The next batch of each table. Not while a draw is due."""
        self.batches = {}
        for name in self._next():
            batch, self._last[name] = self._echoes[name].take()
            if self._splits_rows:
                batch.env_steps = sum(self.env_steps.values())
            self.batches[name] = batch
        self._chosen = None
        return self.batches

    def _next(self) -> Collection[str]:
        """The tables of the next batches; drops those that the learner is done with."""
        if self._choose is None:
            return self._echoes
        if self._chosen is None:
            self._chosen = self._choose(self._held)
            for name in set(self._learner.over) & set(self._streams):  # type: ignore[attr-defined]
                self._let_go(name)
                self.tables[name].drop()
        return self._chosen

    def _let_go(self, name: str) -> None:
        self._streams.pop(name).close()
        if name in self._mirrors:
            self._mirrors.pop(name).close()

    def close(self) -> None:
        """Lets streams and mirrors go; the tables stay."""
        self.flush()
        for name in list(self._streams):
            self._let_go(name)

    def figures(self) -> dict[str, int | float]:
        """What the mirrors say of themselves, all together; nothing without any."""
        readings = [mirror.stats() for mirror in self._mirrors.values()]
        names = readings[0] if readings else {}
        return {name: sum(reading[name] for reading in readings) for name in names}

    def update(self, name: str, priorities: Priorities) -> None:
        """Sends new priorities of those items of that table's batch that are not used again.

        Those that a GPU is still to compute are sent at the next call, when the next step is on
        its way there: the GPU does not wait for them.
        """
        last = self._last[name]
        keys = self.batches[name].keys[last]
        if not len(keys):
            return
        if isinstance(priorities, torch.Tensor):
            priorities = priorities.detach().float()
        if not (isinstance(priorities, torch.Tensor) and priorities.is_cuda):
            self._send(name, keys, np.asarray(priorities, np.float32)[last])
            return
        here = torch.empty_like(priorities, device="cpu", pin_memory=True)
        here.copy_(priorities, non_blocking=True)
        come = torch.cuda.Event()  # type: ignore[no-untyped-call]
        come.record(torch.cuda.current_stream(priorities.device))
        keys, before = keys.copy(), self._late.pop(name, None)

        def send() -> None:
            come.synchronize()
            self._send(name, keys, here.numpy()[last])

        self._late[name] = send
        if before:
            before()

    def flush(self) -> None:
        """Sends the priorities that are left."""
        while self._late:
            self._late.popitem()[1]()

    def _send(
        self, name: str, keys: npt.NDArray[np.uint64], priorities: npt.NDArray[np.float32]
    ) -> None:
        table = self.tables[name]
        send = table.update_priorities if self._serial else table.update_priorities_async
        send(keys, priorities)


class _Holdings:
    """What tables hold, as of the newest look."""

    def __init__(self, stats: Callable[[], Mapping[str, Any]]):
        self._stats, self._asked = stats, 0
        self._reading: Mapping[str, Any] = {}

    def __call__(self, table: str) -> Held:
        if self._asked % _LOOK_QUESTIONS == 0:
            self._reading = self._stats()
        self._asked += 1
        rows, items = (self._reading[f"table.{table}.{name}"] for name in ("rows", "live_items"))
        return Held(int(rows), int(items))


def _stream(table: Table | Mirror, settings: TableSettings) -> Generator[Batch, None, None]:
    """Yields batches without end, `prefetch` of them asked for ahead."""
    size = settings.batch_size
    if settings.prefetch:
        yield from table.stream(size, depth=settings.prefetch, timeout=_WAIT_S)
    while True:
        yield table.sample(size, timeout=_WAIT_S)


class Echo(Protocol):
    """What happens to a table's batches between their draw and the learner."""

    @property
    def due(self) -> bool:
        """Whether a draw must come before the next batch."""

    def add(self, batch: Batch) -> None:
        """Takes what was drawn; its arrays are lent until the next add()."""

    def take(self) -> tuple[Batch, Last]:
        """The next batch: an object of its own, whose arrays others may share."""


class BatchEcho:
    """Repeats each batch; once: leaves it as it is."""

    def __init__(self, times: int):
        self._times, self._left = times, 0

    @property
    def due(self) -> bool:
        return self._left == 0

    def add(self, batch: Batch) -> None:
        self._batch, self._left = batch, self._times

    def take(self) -> tuple[Batch, Last]:
        self._left -= 1
        return copy.copy(self._batch), slice(0 if self._left else None)


class ExampleEcho:
    """Makes batches of the items of several draws."""

    def __init__(self, times: int, buffer: int, size: int, seed: int):
        """buffer: batches of `size` items that it holds."""
        self._times, self._size = times, size
        self._left = np.zeros(buffer * size, np.int64)  # uses, of each place
        self._places: list[npt.NDArray[Any]] = []
        self._rng = np.random.default_rng(seed)

    @property
    def due(self) -> bool:
        return len(self._free()) >= self._size

    def add(self, batch: Batch) -> None:
        self._newest = batch
        expected = batch.item_count * batch.probabilities
        parts: list[npt.NDArray[Any]] = [batch.keys, expected, batch.length, *batch.views.values()]
        if not self._places:
            places = len(self._left)
            self._places = [np.empty((places, *part.shape[1:]), part.dtype) for part in parts]
        free = self._free()[: self._size]
        for kept, part in zip(self._places, parts, strict=True):
            kept[free] = part
        self._left[free] = self._times

    def take(self) -> tuple[Batch, Last]:
        chosen = self._rng.choice(np.flatnonzero(self._left), self._size, replace=False)
        self._left[chosen] -= 1
        batch = copy.copy(self._newest)
        batch.keys, expected, batch.length, *views = (kept[chosen] for kept in self._places)
        batch.probabilities = expected / batch.item_count
        batch.views = dict(zip(batch.views, views, strict=True))
        return batch, self._left[chosen] == 0

    def _free(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(self._left == 0)
