"""What a replay table is, said as plainly as possible: a list of rows, and loops over it.

The naive oracle for streams, episode boundaries, views, padding, n-step windows, item life cycle
and prioritized sampling. Tests compare the native table to it; nothing here is fast. It has the
surface of `Table` and `Writer`, so that actors and learners run on it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drlnet.client import Column, Item, Limiter, Sampler, View


@dataclass
class Row:
    stream: int
    step: int
    first: bool
    last: bool
    columns: dict[str, np.ndarray]
    since_first: int  # steps since the episode's FIRST row
    key: int  # in order of arrival


@dataclass
class Stream:
    rows: list[Row] = field(default_factory=list)


@dataclass
class Anchored:
    stream: int
    step: int
    priority: float


@dataclass(frozen=True)
class Lease:
    ordinal: int
    epoch: int = 1


@dataclass
class OracleBatch:
    """What `drlnet.Batch` holds."""

    views: dict[str, np.ndarray]
    keys: np.ndarray
    probabilities: np.ndarray
    length: np.ndarray
    item_count: int
    age: np.ndarray
    env_steps: int
    items_created: int
    items_drawn: int
    spent: float = 0.0
    least_expected: float | None = None


def random_unrolls(
    item: Item, size: int = 4, *, num_actions: int, obs_shape: tuple[int, ...], seed: int = 0
) -> OracleBatch:
    """Unrolls (drlnet.adders.unroll_item) with random numbers, and a LAST row every third or so."""
    rng = np.random.default_rng(seed)
    views = {}
    for name, view in item.views.items():
        shape = (size, view.bounds[1] - view.bounds[0] + 1)
        drawn = rng.normal(size=(*shape, *(obs_shape if name == "obs" else ())))
        views[name] = drawn.astype(np.float32)
    views["action"] = rng.integers(num_actions, size=views["action"].shape).astype(np.int32)
    views["discount"] = np.ones_like(views["discount"])
    views["last"] = rng.random(views["last"].shape) < 0.3
    return OracleBatch(
        views=views, keys=np.arange(size, dtype=np.uint64),
        probabilities=np.full(size, 1 / size, np.float32), length=np.full(size, 6, np.uint32),
        item_count=size, age=np.zeros(size, np.int64), env_steps=100, items_created=size,
        items_drawn=size,
    )  # fmt: skip


class OracleTable:
    """Rows in order of arrival; the newest `capacity` of them are there, the others are gone."""

    def __init__(
        self,
        columns: Mapping[str, Column],
        item: Item,
        capacity: int,
        sampler: Sampler | None = None,
        limiter: Limiter | None = None,
        seed: int = 0,
    ):
        self.columns, self.item, self.capacity = columns, item, capacity
        self.sampler, self.limiter = sampler or Sampler(), limiter or Limiter()
        self.rows: list[Row] = []
        self.streams: list[Stream] = []
        self.items: dict[tuple[int, int], Anchored] = {}
        self.largest_priority = 1.0
        self.items_created = self.items_drawn = 0
        self._rng = np.random.default_rng(seed)

    # -- writing

    def writer(
        self,
        num_streams: int,
        *,
        flush_rows: int = 1,
        flush_interval_s: float = 0.0,
        held: Callable[[float], None] | None = None,
    ) -> OracleWriter:
        ordinals = range(len(self.streams), len(self.streams) + num_streams)
        self.streams += [Stream() for _ in ordinals]
        return OracleWriter(self, list(ordinals))

    def append(self, stream: int, columns: dict[str, np.ndarray], first: bool, last: bool) -> int:
        rows = self.streams[stream].rows
        step = len(rows)
        goes_on = step > 0 and not rows[-1].last and not first
        assert first or goes_on, "an episode starts with a FIRST row"
        since = rows[-1].since_first + 1 if goes_on else 0
        row = Row(stream, step, first, last, columns, since, len(self.rows))
        rows.append(row)
        self.rows.append(row)
        return step

    def add_item(self, stream: int, step: int, priority: float | None) -> None:
        row = self.streams[stream].rows[step]
        known = (stream, step) in self.items
        stops = self.item.boundary == "stop"
        counted = row.since_first if stops else row.step
        if (row.last and stops) or known or self._gone(row) or counted % self.item.period:
            return
        if priority is None:
            priority = self.largest_priority
        assert np.isfinite(priority) and priority >= 0
        self.largest_priority = max(self.largest_priority, priority)
        self.items[stream, step] = Anchored(stream, step, priority)
        self.items_created += 1

    # -- an item's rows

    def horizon(self) -> int:
        return max(0, *(_bounds(view)[1] for view in self.item.views.values()))

    def back(self) -> int:
        """Rows before the anchor; a view shifted to the end of a shortened item goes furthest."""
        lows = [0]
        for view in self.item.views.values():
            low = _bounds(view)[0]
            lows.append(low - (self.horizon() - 1) if view.from_end else low)
        return max(0, -min(lows))

    def episode_end(self, row: Row) -> Row | None:
        """The last row of an episode that has ended, by LAST or by a break."""
        rows = self.streams[row.stream].rows
        for later in rows[row.step :]:
            if later.last:
                return later
            if later.step + 1 < len(rows) and rows[later.step + 1].first:
                return later
        return None

    def length(self, stream: int, step: int) -> int | None:
        """m; None while the rows that the item needs are not all there."""
        rows = self.streams[stream].rows
        horizon = self.horizon()
        if self.item.boundary == "cross":
            return horizon if step + horizon < len(rows) else None
        for ahead in range(1, horizon + 1):
            if step + ahead >= len(rows):
                return None
            if rows[step + ahead].first:
                return None  # its episode broke off: there will be no more rows
            if rows[step + ahead].last:
                return ahead
        return horizon

    def state(self, stream: int, step: int) -> str:
        """pending, live, retired, or none."""
        if (stream, step) not in self.items:
            return "none"
        row = self.streams[stream].rows[step]
        oldest = self.streams[stream].rows[max(step - self.back(), self._start(row))]
        if self._gone(oldest):
            return "retired"
        if self.length(stream, step) is not None:
            return "live"
        end = self.episode_end(row)
        broken = end is not None and not end.last and self.item.boundary == "stop"
        return "retired" if broken else "pending"

    def read(self, stream: int, step: int) -> tuple[dict[str, np.ndarray], int]:
        """A live item's views and length."""
        length = self.length(stream, step)
        assert length is not None
        views = {}
        for name, view in self.item.views.items():
            low, high = _bounds(view)
            shift = self.horizon() - length if view.from_end else 0
            read = [
                self._read_row(stream, step, step + offset - shift, view, length)
                for offset in range(low, high + 1)
            ]
            views[name] = read[0] if isinstance(view.rows, int) else np.stack(read)
        return views, length

    def _read_row(self, stream: int, anchor: int, step: int, view: View, length: int) -> np.ndarray:
        rows = self.streams[stream].rows
        inside = min(max(step, self._start(rows[anchor])), anchor + length)
        value = rows[inside].columns[view.column]
        return np.zeros_like(value) if inside != step and view.pad == "zero" else value

    # -- drawing

    def live(self) -> list[tuple[int, int]]:
        return [place for place in self.items if self.state(*place) == "live"]

    def mass(self, stream: int, step: int) -> float:
        priority = max(self.items[stream, step].priority, self.sampler.priority_floor)
        return float(priority**self.sampler.priority_exponent)

    def probabilities(self) -> dict[tuple[int, int], float]:
        masses = {place: self.mass(*place) for place in self.live()}
        total = sum(masses.values())
        return {place: mass / total for place, mass in masses.items()}

    def sample(self, n: int, *, timeout: float | None = None) -> OracleBatch:
        """Stratified, with replacement, in random order: any run is as good as any other."""
        probabilities = self.probabilities()
        places = sorted(probabilities, key=self._key)
        edges = np.cumsum([probabilities[place] for place in places])
        points = (np.arange(n) + self._rng.random(n)) / n * edges[-1]
        drawn = [places[min(int(i), len(places) - 1)] for i in edges.searchsorted(points, "right")]
        drawn = [drawn[i] for i in self._rng.permutation(n)]
        self.items_drawn += n
        return self.batch(drawn, probabilities)

    def batch(
        self, drawn: Sequence[tuple[int, int]], probabilities: Mapping[tuple[int, int], float]
    ) -> OracleBatch:
        items = [self.read(*place) for place in drawn]
        keys = np.array([self._key(place) for place in drawn], dtype=np.uint64)
        return OracleBatch(
            views={name: np.stack([views[name] for views, _ in items]) for name in self.item.views},
            keys=keys,
            probabilities=np.array([probabilities[place] for place in drawn], dtype=np.float32),
            length=np.array([length for _, length in items], dtype=np.uint32),
            item_count=len(probabilities),
            age=np.int64(len(self.rows)) - keys.astype(np.int64),
            env_steps=sum(not row.last for row in self.rows),
            items_created=self.items_created,
            items_drawn=self.items_drawn,
        )

    def stream(
        self, n: int, *, depth: int = 2, timeout: float | None = None
    ) -> Iterator[OracleBatch]:
        while True:
            yield self.sample(n)

    def update_priorities(self, keys: np.ndarray, priorities: np.ndarray) -> tuple[int, int]:
        applied = 0
        for key, priority in zip(keys, priorities, strict=True):
            row = self.rows[int(key)]
            if self.state(row.stream, row.step) != "live":
                continue
            self.items[row.stream, row.step].priority = float(priority)
            self.largest_priority = max(self.largest_priority, float(priority))
            applied += 1
        return applied, len(keys) - applied

    def update_priorities_async(self, keys: np.ndarray, priorities: np.ndarray) -> None:
        self.update_priorities(keys, priorities)

    def _key(self, place: tuple[int, int]) -> int:
        return self.streams[place[0]].rows[place[1]].key

    def _start(self, row: Row) -> int:
        """Before which step padding begins: the episode's first, or the stream's."""
        return row.step - row.since_first if self.item.boundary == "stop" else 0

    def _gone(self, row: Row) -> bool:
        return row.key < len(self.rows) - self.capacity


class OracleWriter:
    """M streams of a table."""

    def __init__(self, table: OracleTable, ordinals: list[int]):
        self._table = table
        self.ordinals = np.array(ordinals, dtype=np.int64)
        self.leases = [Lease(ordinal) for ordinal in ordinals]

    def append(
        self,
        columns: Mapping[str, np.ndarray],
        first: np.ndarray,
        last: np.ndarray,
        mask: np.ndarray | None = None,
    ) -> np.ndarray:
        steps = np.full(len(self.ordinals), -1, dtype=np.int64)
        for index, ordinal in enumerate(self.ordinals):
            if mask is not None and not mask[index]:
                continue
            row = {
                name: np.array(values[index], dtype=self._table.columns[name].dtype)
                for name, values in columns.items()
            }
            flags = bool(first[index]), bool(last[index])
            steps[index] = self._table.append(int(ordinal), row, *flags)
        return steps

    def add_items(
        self, streams: np.ndarray, steps: np.ndarray, priorities: np.ndarray | None = None
    ) -> None:
        for index, (stream, step) in enumerate(zip(streams, steps, strict=True)):
            priority = None if priorities is None else float(priorities[index])
            self._table.add_item(int(self.ordinals[stream]), int(step), priority)

    def flush(self) -> None:
        """Rows are there at once."""

    def release(self) -> None:
        """Leases are not followed here: a later writer gets new ordinals."""

    def close(self) -> None:
        self.release()


class OracleClient:
    """A client whose server is this object: tables, params and reports."""

    address = "memory:oracle"

    def __init__(self) -> None:
        self.tables: dict[str, OracleTable] = {}
        self.params: tuple[int, bytes] | None = None
        self.reports: list[dict[str, Any]] = []
        self.blobs: dict[str, bytes] = {}

    def set_timeout(self, seconds: float) -> None:
        self.timeout_s = seconds

    def table(
        self,
        name: str,
        *,
        columns: Mapping[str, Column],
        item: Item,
        capacity: int,
        sampler: Sampler | None = None,
        limiter: Limiter | None = None,
        seed: int = 0,
    ) -> OracleTable:
        if name not in self.tables:
            self.tables[name] = OracleTable(columns, item, capacity, sampler, limiter, seed)
        return self.tables[name]

    def publish(self, params: bytes) -> int:
        self.params = ((self.params[0] if self.params else 0) + 1, params)
        return self.params[0]

    def fetch(self, newer_than: int = 0) -> tuple[int, bytes] | None:
        return self.params if self.params and self.params[0] > newer_than else None

    def put_blob(self, name: str, blob: bytes) -> int:
        self.blobs[name] = blob
        return len(self.blobs)

    def get_blob(self, name: str) -> tuple[int, bytes] | None:
        return (1, self.blobs[name]) if name in self.blobs else None

    def report(self, values: Mapping[str, Any]) -> None:
        self.reports.append(dict(values))

    def stats(self) -> dict[str, Any]:
        newest = self.reports[-1] if self.reports else {}
        return {f"client.learner.{name}": value for name, value in newest.items()}


def _bounds(view: View) -> tuple[int, int]:
    rows: Any = view.rows
    return (rows, rows) if isinstance(rows, int) else (rows[0], rows[1])
