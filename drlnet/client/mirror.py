"""A table whose rows travel once: the learner holds the bytes, the server the index."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from numpy.typing import ArrayLike

from drlnet import native
from drlnet.client.arguments import MOST_AHEAD, seconds, whole
from drlnet.client.batch import Batch, Batches, BatchLayout, BatchMemory, Drawn


class Mirror:
    """Made by Table.mirror(). Threads may share it; a stream is one thread's.

    New rows come in the order of their keys, over a session of their own that the server's
    statistics call rows_NAME. They fill arrays of this process, one for each column, as many rows
    as the server's ring has. A batch is what Table.sample() gives, bit by bit: the server draws
    it and names its rows, and it is gathered here (GEAR, Wang et al., arXiv 2310.05205).
    """

    def __init__(
        self,
        mirror: native.Mirror,
        layout: Callable[[int], BatchLayout],
        update: Callable[..., tuple[int, int]],
    ) -> None:
        self._native: native.Mirror | None = mirror
        self._layout = layout
        self._update = update

    def sample(self, n: int, *, timeout: float | None = 60.0) -> Batch:
        """Draws n items with replacement, as Table.sample() does.

        Rows that are still on their way are waited for. While older ones are, a prioritized table
        gives items since the oldest row that is here, with their probabilities among these. An item
        whose rows are here no more is replaced by another draw. Raises ReplayTimeout, which says
        what it waited for, and what ended the session for rows, where something has.
        """
        memory = BatchMemory(self._layout(n))
        self._mirror.sample(memory.layout, memory.bytes, seconds(timeout))
        return Batch(memory)

    def stream(self, n: int, *, depth: int = 2, timeout: float | None = 60.0) -> Batches:
        """Batches without end, `depth` of them drawn ahead of their use: Table.stream()'s."""
        layout = self._layout(n)
        depth = whole("depth", depth, 0, MOST_AHEAD)
        return Batches(_drawn(self._mirror, layout, depth, seconds(timeout)))

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
        that draws waited for rows."""
        return self._mirror.stats()

    def close(self) -> None:
        """Stops following, and frees the rows once its streams are gone."""
        self._native = None

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


def _drawn(mirror: native.Mirror, layout: BatchLayout, depth: int, timeout_s: float) -> Drawn:
    buffers = [BatchMemory(layout) for _ in range(depth + 1)]
    ahead = mirror.stream(layout.native, [buffer.bytes for buffer in buffers])
    while True:
        yield Batch(buffers[ahead.next(timeout_s)])
