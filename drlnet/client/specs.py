"""What a table is, in a user's words: columns, views, sampler and limiter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from drlnet.errors import ConfigError
from drlnet.native import TableSpec


@dataclass(frozen=True)
class Column:
    """One array per step: `shape` and `dtype` (numpy's name) of one row."""

    dtype: str
    shape: tuple[int, ...] = ()


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
    spec.name = name
    spec.capacity = capacity
    spec.seed = seed
    for column_name, column in columns.items():
        spec.add_column(column_name, column.dtype, list(column.shape))
    order = list(columns)
    for view_name, view in item.views.items():
        if view.column not in columns:
            raise ConfigError(
                f"table '{name}', view '{view_name}': no column '{view.column}'",
                f"use one of: {', '.join(order)}",
            )
        lo, hi = view.bounds
        index = order.index(view.column)
        spec.add_view(view_name, index, lo, hi, view.pad == "zero", view.from_end)
    spec.set_item(item.boundary == "cross", item.period)
    spec.set_sampler(
        sampler.name, sampler.priority_exponent, sampler.priority_floor, dict(sampler.options)
    )
    spec.set_limiter(
        limiter.min_size,
        limiter.samples_per_insert,
        limiter.error_buffer,
        limiter.batch,
        limiter.prefetch,
        limiter.append_burst,
        limiter.max_times_sampled,
    )
    spec.check()
    return spec
