"""A table whose rows travel once: the learner holds the bytes, the server the index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from drlnet import native
from drlnet.client.arguments import MOST_AHEAD, seconds, whole
from drlnet.client.batch import Batch, Batches, BatchLayout, BatchMemory, Drawn

if TYPE_CHECKING:
    from drlnet.client.device_rows import DeviceRows


class Mirror:
    """Made by Table.mirror(). Threads may share it; a stream is one thread's.

    New rows come in the order of their keys, over a session of their own that the server's
    statistics call rows_NAME. They fill arrays of this process, one for each column, as many rows
    as the server's ring has. A batch is what Table.sample() gives, bit by bit: the server draws
    it and names its rows, and it is gathered here, or on a GPU (GEAR, Wang et al., arXiv
    2310.05205). There a view of long rows is a torch tensor, and draws of several threads take
    turns.
    """

    def __init__(
        self,
        mirror: native.Mirror,
        layout: Callable[[int], BatchLayout],
        update: Callable[..., tuple[int, int]],
        device: DeviceRows | None = None,
        on_device: Mapping[str, str] | None = None,
    ) -> None:
        """on_device: the column on the device, by view."""
        self._native: native.Mirror | None = mirror
        self._layout = layout
        self._update = update
        self._device, self._on_device = device, on_device or {}
        self._turn = threading.Lock()  # with a device: of draws
        self._late: set[object] = set()

    def sample(self, n: int, *, timeout: float | None = 60.0) -> Batch:
        """Draws n items with replacement, as Table.sample() does.

        Rows that are still on their way are waited for. While older ones are, a prioritized table
        gives items since the oldest row that is here, with their probabilities among these. An item
        whose rows are here no more is replaced by another draw. Raises ReplayTimeout, which says
        what it waited for, and what ended the session for rows, where something has.
        """
        memory, timeout_s = BatchMemory(self._layout(n)), seconds(timeout)
        mirror, device = self._mirror, self._device

        def draw() -> Batch:
            mirror.sample(memory.layout, memory.bytes, timeout_s)
            return Batch(memory)

        return self._whole(mirror, device, draw, n)

    def stream(self, n: int, *, depth: int = 2, timeout: float | None = 60.0) -> Batches:
        """Batches without end, `depth` of them drawn ahead of their use: Table.stream()'s."""
        layout = self._layout(n)
        depth = whole("depth", depth, 0, MOST_AHEAD)
        return Batches(self._drawn(layout, depth, seconds(timeout)))

    def _drawn(self, layout: BatchLayout, depth: int, timeout_s: float) -> Drawn:
        buffers = [BatchMemory(layout) for _ in range(depth + 1)]
        mirror, device = self._mirror, self._device  # for as long as the stream, closed or not
        ahead = mirror.stream(layout.native, [buffer.bytes for buffer in buffers])

        def draw() -> Batch:
            return Batch(buffers[ahead.next(timeout_s)])

        try:
            while True:
                yield self._whole(mirror, device, draw, ahead)
        finally:  # after an error, too: the stream has ended
            self._late.discard(ahead)

    def _whole(
        self,
        mirror: native.Mirror,
        device: DeviceRows | None,
        draw: Callable[[], Batch],
        drawer: object,
    ) -> Batch:
        """What draw() returns, with rows that lie on the device. drawer: the same of each draw that
        goes on where one ended with an error."""
        if device is None:
            return draw()
        with self._turn:
            while True:
                try:
                    batch = draw()
                except BaseException:
                    self._late.add(drawer)
                    raise
                device.follow(mirror)
                whole = mirror.has_shown(True)
                if drawer in self._late:  # a part of it was shown to an earlier call
                    self._late.remove(drawer)
                elif whole:
                    break
            away: dict[str, Any] = {
                name: device.gather(column, batch.views[name])
                for name, column in self._on_device.items()
            }
            device.end_gather()
        batch.views = {**batch.views, **away}
        return batch

    def update_priorities(self, keys: ArrayLike, priorities: ArrayLike) -> tuple[int, int]:
        """Sets them as Table.update_priorities() does."""
        return self._update(keys, priorities, wait=True)

    def update_priorities_async(self, keys: ArrayLike, priorities: ArrayLike) -> None:
        """Sets them as Table.update_priorities_async() does."""
        self._update(keys, priorities, wait=False)

    def stats(self) -> dict[str, int | float]:
        """mirror.rows: that have come; mirror.rows_behind: that the server had besides, when it was
        last heard; mirror.memory_bytes: what all rows will take; mirror.drawn: items that were
        gathered; mirror.replaced: those with a row which was here no more; mirror.wait_s: seconds
        that draws waited for rows; mirror.device_bytes: that rows take on the device."""
        device_bytes = self._device.memory_bytes if self._device else 0
        return {**self._mirror.stats(), "mirror.device_bytes": device_bytes}

    def close(self) -> None:
        """Stops following, and frees the rows once its streams are gone."""
        self._native = self._device = None

    def __enter__(self) -> Mirror:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def _mirror(self) -> native.Mirror:
        if self._native is None:
            raise RuntimeError("this mirror is closed")
        return self._native
