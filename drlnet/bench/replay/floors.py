"""What no replay memory can beat: the same bytes, copied, gathered, or sent over kernel UDP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.engine import COPY, Effort, timed_calls
from drlnet.bench.machine import Cores, pinned
from drlnet.bench.measure import UdpReceiver, UdpSender, copies
from drlnet.bench.processes import Worker
from drlnet.bench.replay.learner import BATCH, INSERT, SAMPLE
from drlnet.bench.replay.memory import BY
from drlnet.bench.shapes import Shape
from drlnet.launch.signals import Stop

GATHER = "numpy gather (floor)"
BARE = "bare udp"
_OF_ROWS = " of rows"  # drawn from a table, where a bare transfer reads one buffer
_LEAST_ROW_BYTES = 1024  # shorter ones would be too many parts of a message
_LOOK_S = 0.02  # how often a sender looks whether it is to stop


@dataclass(frozen=True)
class Floor:
    """One of them, measured once."""

    subject: str
    op: str
    latencies_us: NDArray[np.float64]
    operation_bytes: int


def bare(poll: str) -> str:
    """The floor of transports that poll in that way."""
    return f"{BARE} {poll} (floor)"


def bare_of_rows(poll: str) -> str:
    """The same, but that its bytes are rows of a table: what memory takes beside."""
    return f"{BARE} {poll}{_OF_ROWS} (floor)"


def without_rows(subject: str) -> str | None:
    """The bare transfer beside which one of rows stands; None for every other subject."""
    bare_one = subject.replace(f"{_OF_ROWS} (floor)", " (floor)")
    return bare_one if bare_one != subject else None


def measure_floors(
    stop: Stop, shape: Shape, effort: Effort, polls: Sequence[str]
) -> Iterator[Floor]:
    """A batch's bytes by memcpy, numpy and bare UDP, and an insertion's by memcpy.

    Copies are of an item's bytes in one piece from random places of as much memory as the table
    has; a bare transfer sends one buffer, and once more rows from random places of such a table.
    """
    cores = Cores.usable()
    reply_bytes = shape.reply_bytes(BATCH)
    item_bytes, row_bytes = reply_bytes // BATCH, shape.row_bytes
    items = max(BATCH, shape.table_bytes // item_bytes)
    with pinned(cores.client):
        batches = partial(copies, item_bytes, items, BATCH)
        yield Floor(COPY, SAMPLE, effort.latencies_us(batches), reply_bytes)
        rows = partial(copies, row_bytes, items, BY)
        yield Floor(COPY, INSERT, effort.latencies_us(rows), BY * row_bytes)
        gathers = effort.latencies_us(_gathers(items, item_bytes))
        yield Floor(GATHER, SAMPLE, gathers, reply_bytes)
    for poll in polls:
        times = _transfers(stop, partial(_Sender, poll), poll, reply_bytes, effort, cores)
        yield Floor(bare(poll), SAMPLE, times, reply_bytes)
        if row_bytes >= _LEAST_ROW_BYTES:
            sender = partial(_Sender, poll, row_bytes, shape.capacity)
            times = _transfers(stop, sender, poll, reply_bytes, effort, cores)
            yield Floor(bare_of_rows(poll), SAMPLE, times, reply_bytes)


def _gathers(items: int, item_bytes: int) -> Callable[[NDArray[np.uint64], float], int]:
    random = np.random.default_rng(0)
    rows = np.ones((items, item_bytes), np.uint8)
    to = np.empty((BATCH, item_bytes), np.uint8)

    def chosen() -> tuple[NDArray[np.int64]]:
        return (random.integers(0, items, BATCH),)

    # Clipped, not checked: with a check numpy buffers what it writes to `out`.
    def take(indices: NDArray[np.int64]) -> None:
        np.take(rows, indices, axis=0, out=to, mode="clip")

    return partial(timed_calls, chosen, take)


class _Sender:
    """The other process of a bare transfer."""

    def __init__(self, poll: str, row_bytes: int = 0, rows: int = 0) -> None:
        self._sender = UdpSender(poll, row_bytes, rows)

    def hear(self, asked: Callable[[], bool]) -> None:
        self._asked = asked

    def port(self) -> int:
        return self._sender.port

    def serve(self) -> int:
        """Sends until asked for something else: how many bytes."""
        count = 0
        while not self._asked():
            count += self._sender.serve(_LOOK_S)
        return count


def _transfers(
    stop: Stop,
    make: Callable[[], _Sender],
    poll: str,
    size_bytes: int,
    effort: Effort,
    cores: Cores,
) -> NDArray[np.float64]:
    with Worker(stop, make, core=cores.server) as sender, pinned(cores.client):
        receiver = UdpReceiver(sender.call("port"), poll)
        with sender.doing("serve"):
            return effort.latencies_us(partial(receiver.transfers, size_bytes))
