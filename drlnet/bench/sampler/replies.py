"""The whole of a server's answer to a sample request, without a network, against plain memcpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench.rounds import Effort
from drlnet.bench.shapes import FRAMES, FRAMES_3, SMALL, Shape
from drlnet.client import Sampler

SHAPES = (SMALL, FRAMES, FRAMES_3)


@dataclass(frozen=True)
class Answered:
    """One turn: whether of a plain memcpy, and latencies, in microseconds, of so many bytes."""

    copied: bool
    latencies_us: NDArray[np.float64]
    reply_bytes: int


def measure_replies(
    shape: Shape, sampler: Sampler, batch: int, effort: Effort, *, copy_first: bool
) -> Iterator[Answered]:
    """Replies, and a plain memcpy of as many bytes: in which order is for rounds to alternate.

    What is copied is drawn from as much memory as the table has, and lies together.
    """
    spec = shape.spec(sampler)
    reply_bytes = shape.reply_bytes(batch)

    def replies() -> Answered:
        table = native.FullTable(spec)
        return Answered(False, effort.latencies_us(partial(table.samples, batch)), reply_bytes)

    def copies() -> Answered:
        places = max(1, shape.table_bytes // reply_bytes)
        copy = partial(native.measure_copies, reply_bytes, places, 1)
        return Answered(True, effort.latencies_us(copy), reply_bytes)

    for measured in (copies, replies) if copy_first else (replies, copies):
        yield measured()
