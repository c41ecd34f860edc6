"""Appends steps of a set of streams, and the items that anchor in them."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drlnet.client.arguments import array, converted, of_numpy, wrong
from drlnet.client.specs import Column
from drlnet.errors import ConfigError
from drlnet.native import StreamWriter

# At hand, since numpy takes its time to find a type's dtype.
_BOOL, _INT64, _FLOAT32 = np.dtype(np.bool_), np.dtype(np.int64), np.dtype(np.float32)
_ALL = np.empty(0, _BOOL)
_MAXIMUM = np.empty(0, _FLOAT32)


class StreamLease(NamedTuple):
    """A stream's identity. A process that has the token can resume the stream."""

    ordinal: int
    epoch: int
    token: int
    next_step: int


class Writer:
    """Writes M streams, one row per stream and call. Not for several threads at once."""

    def __init__(self, native: StreamWriter, columns: Mapping[str, Column]) -> None:
        self._native = native
        self.num_streams = len(native.leases)
        self._each = (self.num_streams,)
        self._columns = {
            name: (np.dtype(column.dtype), (self.num_streams, *column.shape))
            for name, column in columns.items()
        }
        self._given = {name: dtype for name, (dtype, _) in self._columns.items()}  # of arrays
        self.ordinals: NDArray[np.int64] = np.array([lease[0] for lease in native.leases], np.int64)

    @property
    def leases(self) -> list[StreamLease]:
        """The leases as they stand now: next_step counts all rows appended so far."""
        return [StreamLease(*lease) for lease in self._native.leases]

    def append(
        self,
        columns: Mapping[str, ArrayLike],
        first: ArrayLike,
        last: ArrayLike,
        mask: ArrayLike | None = None,
    ) -> NDArray[np.int64]:
        """Appends one row to each stream whose mask is set.

        columns: every column of the table, [M, *shape] each, converted to its dtype: an array only
            where numpy's "same_kind" allows that, so that int64 may become int32, but floats no
            integers, and signed integers no unsigned ones; or integers a bool. So is a tensor. A
            list is converted as numpy does.
        first, last: bool [M], episode boundaries: an episode's first row, and its final observation
            (a row whose action means nothing).
        Returns int64 [M], the rows' step numbers, -1 where masked.
        Rows travel when enough have gathered; errors of an earlier append are raised here. After an
        error some of the rows may have been taken, as `leases` tells: go on with another writer.
        Raises ConfigError (columns), StreamGap, UnknownLease, BadRequest, ReplayTimeout.
        """
        steps: NDArray[np.int64] = np.empty(self._each, _INT64)
        self._native.append(
            self._rows(columns),
            self._flags("first", first),
            self._flags("last", last),
            _ALL if mask is None else self._flags("mask", mask),
            steps,
        )
        return steps

    def add_items(
        self, streams: ArrayLike, steps: ArrayLike, priorities: ArrayLike | None = None
    ) -> None:
        """Anchors items at rows that were appended before.

        streams: int [k], indices 0 to M - 1; steps: int [k], as append() returned them;
        priorities: float [k], finite and >= 0, or None for the largest priority seen so far.
        An item whose window is not complete yet goes live when it is. Adding one twice is harmless.
        An item that cannot be is refused and counted in `items_refused`: its rows are overwritten
        or never came, its step is off the period, or it lies on a LAST row of a table whose items
        stop there.
        Raises BadPriority (no item of the call is added), ConfigError.
        """
        indices = array("streams", streams, _INT64)
        anchors = array("steps", steps, _INT64)
        given = _MAXIMUM if priorities is None else array("priorities", priorities, _FLOAT32)
        count = len(indices)
        if len(anchors) != count or (priorities is not None and len(given) != count):
            raise ConfigError(
                f"{count} streams, {len(anchors)} steps, {len(given)} priorities",
                "give one step and one priority for each item",
            )
        if count:
            self._native.add_items(indices, anchors, given)

    @property
    def items_refused(self) -> int:
        """Items that the server refused, as far as its answers have come: see add_items, flush."""
        return self._native.items_refused

    def flush(self) -> None:
        """Sends what has gathered, and once more what a restarted server has lost, and waits until
        the server has stored everything. After a ReplayTimeout you may call it again: it goes on.
        """
        self._native.flush()

    def release(self) -> None:
        """Gives the streams back without waiting for what has not been sent: their ordinals go to
        the next client that leases."""
        self._native.release()

    def close(self) -> None:
        """Flushes, then releases the streams."""
        self._native.flush()
        self._native.release()

    def __repr__(self) -> str:
        steps = sum(lease.next_step for lease in self.leases)
        columns = ", ".join(self._columns)
        return f"<Writer of {self.num_streams} streams, {steps:,} steps so far: {columns}>"

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()

    def _rows(self, columns: Mapping[str, ArrayLike]) -> list[NDArray[Any]]:
        if not isinstance(columns, Mapping):
            raise wrong("columns", columns, "give a dict of arrays by name")
        rows = []
        for name, (dtype, shape) in self._columns.items():
            if name not in columns:
                raise ConfigError(f"append: column '{name}' is missing", "append all columns")
            values = of_numpy(f"append: column '{name}'", columns[name])
            if isinstance(values, np.ndarray) and values.dtype != self._given[name]:
                self._require_kind(name, values.dtype, dtype)
            row = converted(f"append: column '{name}'", values, dtype)
            if row.shape != shape:
                raise ConfigError(
                    f"append: column '{name}' has shape {row.shape}",
                    f"give one row per stream: {shape}",
                )
            rows.append(row)
        if len(columns) != len(rows):
            unknown = ", ".join(sorted(set(columns) - set(self._columns)))
            raise ConfigError(f"the table has no column {unknown}", "append the table's columns")
        return rows

    def _require_kind(self, name: str, given: np.dtype[Any], dtype: np.dtype[Any]) -> None:
        if not (
            np.can_cast(given, dtype, "same_kind") or (dtype.kind == "b" and given.kind in "iu")
        ):
            raise ConfigError(
                f"append: column '{name}' is {dtype}, and was given {given}",
                f'give it {dtype}, as by .astype("{dtype}"), or declare the column otherwise',
            )
        self._given[name] = given

    def _flags(self, name: str, values: ArrayLike) -> NDArray[np.bool_]:
        flags = converted(f"append: '{name}'", values, _BOOL)
        if flags.shape != self._each:
            raise ConfigError(
                f"append: '{name}' has shape {flags.shape}", f"give one of {self.num_streams}"
            )
        return flags
