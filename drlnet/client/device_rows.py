"""The rows of a mirror on a torch device: batches are put together where a learner uses them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.client.arguments import wrong
from drlnet.client.specs import Column
from drlnet.errors import ConfigError
from drlnet.lazy import torch

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_LEAST_BYTES = 64  # of a row; shorter ones are gathered on the host, in less time than a kernel's
_STAGING_BYTES = 8 << 20  # of each column, twice


def apart(columns: Mapping[str, Column]) -> list[bool]:
    """Which columns lie on the device."""
    return [column.row_bytes >= _LEAST_BYTES for column in columns.values()]


def numbered(columns: Mapping[str, Column]) -> dict[str, Column]:
    """The columns as batches have them first: those on the device as numbers of rows there."""
    flags = zip(columns.items(), apart(columns), strict=True)
    return {name: Column("uint32") if away else column for (name, column), away in flags}


def device_named(device: object) -> torch.device:
    """The device of that name. Raises ConfigError where torch has none here."""
    try:
        return torch.empty(0, device=device).device  # type: ignore[call-overload,no-any-return]
    except (RuntimeError, TypeError, AssertionError) as error:
        raise wrong("device", device, 'give a device that torch has here, as "cuda"') from error


class DeviceRows:
    """Rows on a device, numbered from 1; row 0 is zeros. For one thread at a time.

    They go through pinned memory, on a stream of their own, and are gathered on the current one
    (GEAR, Wang et al., arXiv 2310.05205, gathers on the GPU, too; it loads a dataset before).
    """

    def __init__(self, columns: Mapping[str, Column], places: int, device: torch.device) -> None:
        """places: rows, that of zeros included. Raises ConfigError where they do not fit."""
        self._columns = {
            name: column
            for (name, column), away in zip(columns.items(), apart(columns), strict=True)
            if away
        }
        self._device = device
        self._cuda = self._device.type == "cuda"
        row_bytes = [column.row_bytes for column in self._columns.values()]
        if self._cuda:
            _require_memory(self._device, places, sum(row_bytes))
        # In words where they are: a gather moves as many at a time.
        self._rings = {
            name: torch.zeros(places, size // 8, dtype=torch.int64, device=device)
            if size % 8 == 0
            else torch.zeros(places, size, dtype=torch.uint8, device=device)
            for name, size in zip(self._columns, row_bytes, strict=True)
        }
        self.memory_bytes = places * sum(row_bytes)
        self._staging = [
            [
                torch.empty(max(1, _STAGING_BYTES // size), size, dtype=torch.uint8,
                            pin_memory=self._cuda)
                for size in row_bytes
            ]
            for _ in range(2)
        ]  # fmt: skip
        self._arrays = [[one.numpy().reshape(-1) for one in set_] for set_ in self._staging]
        if self._cuda:
            cuda: Any = torch.cuda
            self._copies = cuda.Stream(self._device)
            self._copied = [cuda.Event() for _ in self._staging]  # out of each staging
            self._gathered = cuda.Event()

    def follow(self, mirror: native.Mirror) -> None:
        """Copies what is new in the mirror."""
        if self._cuda:
            self._copies.wait_event(self._gathered)  # new rows take old ones' places
        while True:
            if self._cuda:
                self._copied[0].synchronize()
            place, count = mirror.copy_apart(self._arrays[0])
            if count == 0:
                break
            stream: AbstractContextManager[object] = (
                torch.cuda.stream(self._copies) if self._cuda else nullcontext()
            )
            with stream:
                for ring, rows in zip(self._rings.values(), self._staging[0], strict=True):
                    to = ring[place : place + count].view(torch.uint8)
                    to.copy_(rows[:count], non_blocking=True)
            if self._cuda:
                self._copied[0].record(self._copies)
                self._copied.reverse()
            self._staging.reverse()
            self._arrays.reverse()
        if self._cuda:
            torch.cuda.current_stream(self._device).wait_stream(self._copies)

    def gather(self, column: str, numbers: NDArray[np.uint32]) -> torch.Tensor:
        """The rows with these numbers, uint32 [...]: [..., *shape] of the column's dtype."""
        of = self._columns[column]
        index = np.ascontiguousarray(numbers).view(np.int32).reshape(-1)
        rows = self._rings[column].index_select(0, moved(index, self._device))
        return rows.view(_torch_dtype(of.dtype)).view(*numbers.shape, *of.shape)

    def end_gather(self) -> None:
        """To be called after the last gather of a batch."""
        if self._cuda:
            self._gathered.record(torch.cuda.current_stream(self._device))


def moved(array: NDArray[Any] | torch.Tensor, device: torch.device) -> torch.Tensor:
    """The array as a tensor on the device; on a GPU when its current stream gets there. The array
    may be overwritten at once, but where the device is this processor: it is shared there."""
    if isinstance(array, torch.Tensor):
        return array.to(device)
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def _torch_dtype(name: str) -> torch.dtype:
    return torch.from_numpy(np.empty(0, name)).dtype


def _require_memory(device: torch.device, rows: int, row_bytes: int) -> None:
    free = torch.cuda.mem_get_info(device)[0]
    if rows * row_bytes > free:
        raise ConfigError(
            f"a mirror on {device} takes {rows * row_bytes >> 20} MiB of its memory, of which "
            f"{free >> 20} MiB are left",
            f"lower the table's capacity to some {free // row_bytes * 9 // 10:,} rows, or keep "
            "them on the host: replay.rows = learner",
        )
