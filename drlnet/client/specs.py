"""What a table is, in a user's words: columns, views, sampler and limiter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from drlnet.client.arguments import converting, flag, number, text, whole, wrong
from drlnet.errors import ConfigError
from drlnet.native import TableSpec

_UINT32 = 2**32 - 1


@dataclass(frozen=True)
class Column:
    """One array per step: `shape` and `dtype` (numpy's name) of one row."""

    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.dtype(self.dtype).itemsize) * math.prod(self.shape)


@dataclass(frozen=True)
class View:
    """Rows of one column that a sample shows, relative to the item's anchor.

    rows: an int k shows row k without a time axis, (n, *shape); (lo, hi), both inclusive, shows
        (n, hi - lo + 1, *shape). (-3, 0) is a stack of four frames that ends at the anchor.
    pad: what stands before an episode's first row and behind its end: its edge row, or zeros.
    from_end: rows count from the item's effective end m = min(horizon, steps left), written as if m
        were the horizon: with horizon n, View("obs", n, from_end=True) is the observation to
        bootstrap from, however early the episode ended.
    """

    column: str
    rows: int | tuple[int, int] = 0
    pad: Literal["repeat", "zero"] = "repeat"
    from_end: bool = False

    @property
    def bounds(self) -> tuple[int, int]:
        """(lo, hi), both inclusive."""
        return (self.rows, self.rows) if isinstance(self.rows, int) else self.rows


@dataclass(frozen=True)
class Item:
    """What one draw yields: named views over consecutive steps of one stream.

    boundary: "stop" ends an item with its episode; "cross" runs over episode boundaries.
    period: items anchor only at every period-th step: of the stream where they cross episodes, so
        that they neither overlap nor leave gaps; else of the episode.
    """

    views: Mapping[str, View]
    boundary: Literal["stop", "cross"] = "stop"
    period: int = 1


@dataclass(frozen=True)
class Sampler:
    """How items are drawn. Stored priority is max(p, priority_floor) ** priority_exponent
    (Schaul et al., 2016, "Prioritized Experience Replay", proportional variant)."""

    name: str = "prioritized"
    priority_exponent: float = 0.6
    priority_floor: float = 1e-6
    options: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Limiter:
    """When a sample or an insertion has to wait.

    min_size: items before the first draw. samples_per_insert: item draws per item creation, 0 for
    no limit; error_buffer: by how many draws the ratio may be off. max_times_sampled: above 0 the
    table is a queue: an item retires after that many draws, and an append waits while it would
    overwrite an item that has draws left; one that still waits for its rows retires when the ring
    has gone round before they come. batch, prefetch and append_burst
    say what the clients intend, so that settings which can deadlock are refused when the table is
    opened.
    """

    min_size: int = 1
    samples_per_insert: float = 0.0
    error_buffer: float = 0.0
    max_times_sampled: int = 0
    batch: int = 0
    prefetch: int = 0
    append_burst: int = 0


def declared(spec: TableSpec) -> tuple[dict[str, Column], Item]:
    """The columns and the item of a table that the server has: native_spec the other way."""
    said = spec.describe()
    columns = {
        name: Column(dtype, tuple(shape)) for name, (dtype, shape) in said["columns"].items()
    }
    views = {
        name: View(column, lo if lo == hi else (lo, hi), "zero" if zero else "repeat", from_end)
        for name, (column, lo, hi, zero, from_end) in said["views"].items()
    }
    return columns, Item(views, "cross" if said["cross"] else "stop", said["period"])


def native_spec(
    name: str,
    columns: Mapping[str, Column],
    item: Item,
    capacity: int,
    sampler: Sampler,
    limiter: Limiter,
    seed: int,
) -> TableSpec:
    """The native form of a table's specification. Raises ConfigError for one that cannot work."""
    spec = TableSpec()
    spec.name = text("name", name)
    spec.capacity = whole("capacity", capacity)
    spec.seed = whole("seed", seed)
    order = _add_columns(spec, columns)
    _set_item(spec, order, item)
    if not isinstance(sampler, Sampler):
        raise wrong("sampler", sampler, 'give a Sampler, as Sampler("uniform")')
    if not isinstance(limiter, Limiter):
        raise wrong("limiter", limiter, "give a Limiter, as Limiter(min_size=1000)")
    if not isinstance(sampler.options, Mapping):
        raise wrong("sampler.options", sampler.options, "give a dict of numbers by name")
    for option, value in sampler.options.items():
        number(f"sampler option {text('its name', option)!r}", value)
    spec.set_sampler(
        text("sampler.name", sampler.name),
        number("sampler.priority_exponent", sampler.priority_exponent),
        number("sampler.priority_floor", sampler.priority_floor),
        dict(sampler.options),
    )
    spec.set_limiter(
        whole("limiter.min_size", limiter.min_size),
        number("limiter.samples_per_insert", limiter.samples_per_insert),
        number("limiter.error_buffer", limiter.error_buffer),
        whole("limiter.batch", limiter.batch, 0, _UINT32),
        whole("limiter.prefetch", limiter.prefetch, 0, _UINT32),
        whole("limiter.append_burst", limiter.append_burst, 0, _UINT32),
        whole("limiter.max_times_sampled", limiter.max_times_sampled, 0, _UINT32),
    )
    spec.check()
    return spec


def _add_columns(spec: TableSpec, columns: Mapping[str, Column]) -> list[str]:
    """Declares them, and returns their names in the order of their numbers."""
    if not isinstance(columns, Mapping):
        raise wrong("columns", columns, "give a dict of Column by name")
    for name, column in columns.items():
        where = f"column {text('the name of a column', name)!r}"
        if not isinstance(column, Column):
            raise wrong(where, column, 'give a Column, as Column("float32", (4,))')
        if not isinstance(column.shape, Sequence) or isinstance(column.shape, str):
            raise wrong(f"{where}: shape", column.shape, "give a tuple of extents")
        shape = [whole(f"{where}: an extent of its shape", n, 0, _UINT32) for n in column.shape]
        spec.add_column(name, text(f"{where}: dtype", column.dtype), shape)
    return list(columns)


def _set_item(spec: TableSpec, columns: list[str], item: Item) -> None:
    if not isinstance(item, Item) or not isinstance(item.views, Mapping):
        raise wrong("item", item, 'give an Item of views by name, as Item({"x": View("x")})')
    for name, view in item.views.items():
        where = f"table '{spec.name}', view {text('the name of a view', name)!r}"
        if not isinstance(view, View):
            raise wrong(where, view, 'give a View, as View("obs")')
        if view.column not in columns:
            raise ConfigError(
                f"{where}: no column '{view.column}'", f"use one of: {', '.join(columns)}"
            )
        text(f"{where}: pad", view.pad, ("repeat", "zero"))
        with converting(f"{where}: rows"):
            first, last = view.bounds
        lo = whole(f"{where}: rows", first, -(2**31), 2**31 - 1)
        hi = whole(f"{where}: rows", last, -(2**31), 2**31 - 1)
        from_end = flag(f"{where}: from_end", view.from_end)
        spec.add_view(name, columns.index(view.column), lo, hi, view.pad == "zero", from_end)
    boundary = text("item.boundary", item.boundary, ("stop", "cross"))
    spec.set_item(boundary == "cross", whole("item.period", item.period, 0, _UINT32))
