"""The feed: batches from the server's tables to the learner, and priorities back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from drlnet.algos import Algorithm, TableSettings
from drlnet.client import Batch, Table


class Feed:
    """The learner's tables, and a batch of each at a time. Not thread-safe."""

    def __init__(self, algorithm: Algorithm[Any], tables: Mapping[str, Table]):
        self._serial = algorithm.config.run.serial
        # A serial run is its own server: a process that was suspended goes on where it was.
        timeout = None if self._serial else 60.0
        self.tables = tables
        self._streams = {
            name: _stream(tables[name], settings, timeout)
            for name, settings in algorithm.tables().items()
        }
        self.batches: Mapping[str, Batch] = {}

    def draw(self) -> None:
        """Draws the next batches. Raises as Table.sample() does."""
        self.batches = {name: next(stream) for name, stream in self._streams.items()}

    def update(self, name: str, priorities: npt.NDArray[np.float32]) -> None:
        """Sends new priorities of the items of that table's batch."""
        table = self.tables[name]
        send = table.update_priorities if self._serial else table.update_priorities_async
        send(self.batches[name].keys, priorities)


def _stream(table: Table, settings: TableSettings, timeout: float | None) -> Iterator[Batch]:
    """Yields batches without end, `prefetch` of them asked for ahead."""
    size = settings.batch_size
    if settings.prefetch:
        yield from table.stream(size, depth=settings.prefetch, timeout=timeout)
    while True:
        yield table.sample(size, timeout=timeout)
