"""The process in which a memory is used: its operations, timed; those that insert beside it; and
what no memory can beat: the same bytes, copied or sent over kernel UDP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.engine import COPY, Effort, timed_calls
from drlnet.bench.machine import Cores, pinned
from drlnet.bench.measure import copies, gathers, udp_transfers
from drlnet.bench.processes import Lasting
from drlnet.bench.replay.memory import BY, Block, Door, Inserter, Memory, blocks_of, first_of
from drlnet.bench.shapes import Shape

BATCH = 512
SLICE_S = 0.001  # in which an inserting client keeps its pace
_HEAR_S = 0.01  # until it hears at the latest that it is to stop
_SMALL_BATCH = 32
_DRAWN = 8  # batches whose keys are updated in turn
GATHER = "bare gather (floor)"
INSERT = f"insert by {BY}"
CYCLE = f"cycle {BATCH}"  # a sample and its update
PREFETCHED = f"{CYCLE} prefetched"
SAMPLE = f"sample {BATCH}"
_INSERT_ONE, _UPDATE = "insert 1", f"update {BATCH}"
ALONE = (_INSERT_ONE, INSERT, f"sample {_SMALL_BATCH}", SAMPLE, _UPDATE, CYCLE)
BESIDE = (CYCLE,)  # what is measured beside inserting clients

Latencies = NDArray[np.float64]  # us
Floor = tuple[str, str, Latencies, int]  # subject, operation, bytes of one


class Learner:
    """One memory at a time, made and used here. Called from another process (Worker), as are the
    memory's own methods.
    """

    def __init__(self, find: Callable[[], Callable[[Shape], Memory]]) -> None:
        self._make = find()
        self._memory: Memory | None = None

    def open(self, shape: Shape) -> str:
        """Makes the memory and fills it; returns what it includes."""
        self._memory = self._make(shape)
        self._blocks = blocks_of(shape)
        self._memory.fill(self._blocks, shape.capacity)
        self._random = np.random.default_rng(1)
        return self._memory.includes

    @property
    def memory(self) -> Memory:
        """What is open."""
        assert self._memory is not None
        return self._memory

    def measure(self, op: str, effort: Effort) -> Latencies | None:
        """Latencies of one operation; None: this memory has no such."""
        sent, self._made = self.memory.sent_bytes(), 0
        try:
            return self._measure(op, effort)
        finally:
            now = self.memory.sent_bytes()
            self._sent_each = (
                None if sent is None or now is None else (now - sent) // max(1, self._made)
            )

    def sent_each(self) -> int | None:
        """Bytes that the server sent for each call measured last, where the memory tells them."""
        return self._sent_each

    def _measure(self, op: str, effort: Effort) -> Latencies | None:
        if op == PREFETCHED:
            prefetching = self.memory.prefetching(BATCH)
            if prefetching is None:
                return None
            with prefetching as step:
                return effort.latencies_us(partial(self._counted, self._priorities, step))
        prepare, call = self._calls(op)
        return effort.latencies_us(partial(self._settled, prepare, call))

    def _calls(self, op: str) -> tuple[Callable[[], tuple[Any, ...]], Callable[..., object]]:
        """What makes the arguments of an operation, and what is timed."""
        memory, nothing = self.memory, tuple[Any, ...]
        if op == _INSERT_ONE:
            return lambda: (first_of(next(self._blocks)),), memory.insert
        if op == INSERT:
            return lambda: (next(self._blocks),), memory.insert
        if op == _UPDATE:
            return self._updates(), memory.update
        if op == CYCLE:
            return self._priorities, partial(memory.cycle, BATCH)
        return nothing, partial(memory.sample, BATCH if op == SAMPLE else _SMALL_BATCH)

    def _counted(
        self,
        prepare: Callable[[], tuple[Any, ...]],
        call: Callable[..., object],
        latencies_ns: NDArray[np.uint64],
        budget_s: float,
    ) -> int:
        count = timed_calls(prepare, call, latencies_ns, budget_s)
        self._made += count
        return count

    def _settled(
        self,
        prepare: Callable[[], tuple[Any, ...]],
        call: Callable[..., object],
        latencies_ns: NDArray[np.uint64],
        budget_s: float,
    ) -> int:
        """The calls, the last with the time until all that they inserted is stored."""
        count = self._counted(prepare, call, latencies_ns, budget_s)
        before = time.perf_counter_ns()
        self.memory.wait_for_inserts()
        if count and call == self.memory.insert:
            latencies_ns[count - 1] += np.uint64(time.perf_counter_ns() - before)
        return count

    def _priorities(self) -> tuple[NDArray[np.float32]]:
        return (self._random.standard_exponential(BATCH, np.float32),)

    def _updates(self) -> Callable[[], tuple[Any, NDArray[np.float32]]]:
        """Arguments of updates, drawn before: to draw frames takes longer than any update."""
        drawn = cycle([self.memory.sample(BATCH)[0] for _ in range(_DRAWN)])
        return lambda: (next(drawn), *self._priorities())

    def shut(self) -> None:
        """Ends the memory; another may be made."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    def close(self) -> None:
        self.shut()


class Client(Lasting):
    """A process that inserts beside a learner, at a given rate.

    It sleeps for a millisecond at least and then inserts what has become due: to be woken for each
    insertion of a fast one would cost the cores as much as the insertions.
    """

    def __init__(self, door: Door, shape: Shape) -> None:
        self._inserter: Inserter | None = door()
        self._blocks: Iterator[Block] = blocks_of(shape)

    def insert(self, per_second: float) -> tuple[int, float]:
        """Transitions at that rate until asked for something else: (how many, in how many s).

        At least once, however soon it is asked.
        """
        assert self._inserter is not None
        interval_s = BY / per_second
        started = time.perf_counter()
        count = 0
        while not (count and self.asked()):
            ahead_s = started + count * interval_s - time.perf_counter()
            if ahead_s > 0:  # a slow one still hears when asked
                time.sleep(min(max(ahead_s, SLICE_S), _HEAR_S))
                continue
            self._inserter.insert(next(self._blocks))
            count += 1
        return count * BY, time.perf_counter() - started

    def leave(self) -> None:
        """Stores what is under way and closes the door behind it."""
        inserter, self._inserter = self._inserter, None
        if inserter is not None:
            inserter.wait_for_inserts()
            inserter.close()


def bare(poll: str) -> str:
    """The floor of transports that poll in that way."""
    return f"bare udp {poll} (floor)"


def measure_floors(
    shape: Shape, effort: Effort, polls: Sequence[str], *, mirrors: bool
) -> Iterator[Floor]:
    """A batch's bytes by memcpy and bare UDP, and an insertion's by memcpy.

    Copies are of an item's bytes in one piece from random places of as much memory as the table
    has; a bare transfer sends one buffer. mirrors: and a gather out of a mirror.
    """
    cores = Cores.usable()
    reply_bytes = shape.reply_bytes(BATCH)
    item_bytes, row_bytes = reply_bytes // BATCH, shape.row_bytes
    items = max(BATCH, shape.table_bytes // item_bytes)
    with pinned(cores.client):
        batches = partial(copies, item_bytes, items, BATCH)
        yield COPY, SAMPLE, effort.latencies_us(batches), reply_bytes
        rows = partial(copies, row_bytes, items, BY)
        if mirrors:
            gathered = partial(gathers, shape.spec("floor"), BATCH)
            yield GATHER, SAMPLE, effort.latencies_us(gathered), reply_bytes
        yield COPY, INSERT, effort.latencies_us(rows), BY * row_bytes
        for poll in polls:
            transfers = partial(udp_transfers, cores.server, poll, reply_bytes)
            yield bare(poll), SAMPLE, effort.latencies_us(transfers), reply_bytes
