"""Does a 25 MB sample reply hold up another client's ping?

The server, a client that samples 25 MB batches without a pause, and this process, which pings, want
a core each. Each latency is recorded as it was, and "on a core": without the time for which the
kernel says that the pinging thread, or the server's, waited for one, whichever waited longer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

import numpy as np

from drlnet.bench import shapes
from drlnet.bench.engine import Course, Results
from drlnet.bench.machine import run_delay
from drlnet.bench.processes import Lasting, Worker, served
from drlnet.bench.records import Record, Records
from drlnet.bench.transport.suite import Poll, Subject
from drlnet.client import Client, Column, Item, Table, View
from drlnet.config.transports import LISTEN
from drlnet.launch.signals import Stop

BATCH = 512  # x 7 frames of 7,056 B: 25.3 MB, an Atari batch of four frames and three steps
ALONE, BESIDE = "alone", "beside 25 MB sample replies"
OPS = ("ping", "ping on a core")
POLLS: tuple[Poll, ...] = ("adaptive", "busy", "block")
_ROWS, _STREAMS = 8192, 4


def _open(client: Client) -> Table:
    return client.table(
        "turns",
        columns={"obs": Column("uint8", (84, 84))},
        item=Item({"obs": View("obs", (-3, 0)), "next_obs": View("obs", (0, 3), from_end=True)}),
        capacity=_ROWS,
    )


def fill(client: Client) -> None:
    """Opens the table that a BulkReader reads, and gives it its rows."""
    frames = np.random.default_rng(0).integers(0, 255, (_STREAMS, 84, 84), np.uint8)
    shapes.fill(_open(client), {"obs": frames}, _ROWS)


class BulkReader(Lasting):
    """The process that samples batches. Called from another one (Worker)."""

    def __init__(self, address: str) -> None:
        self._client = Client(address, name="bulk-reader")
        self._table = _open(self._client)
        self._table.sample(BATCH)

    def read(self) -> float:
        """Samples until asked for something else: bytes per second."""
        batches, started = 0, time.monotonic()
        while not self.asked():
            self._table.sample(BATCH)
            batches += 1
        return batches * BATCH * 7 * 7056 / (time.monotonic() - started)

    def close(self) -> None:
        self._client.close()


def _pings(
    stop: Stop, client: Client, delays: Sequence[Callable[[], float]], count: int
) -> tuple[list[float], list[float]]:
    """Latencies in us, as they were and on a core. Raises KeyboardInterrupt when stopped."""
    seen: list[float] = []
    on_core: list[float] = []
    with stop.interrupts():
        for _ in range(count):
            before = [delay() for delay in delays]
            latency = client.ping()
            after = [delay() for delay in delays]
            waited = max(late - early for early, late in zip(before, after, strict=True))
            seen.append(latency)
            on_core.append(max(latency - waited, 0.0))
    return seen, on_core


def measure_turns(
    course: Course, *, pings: int = 5000, polls: Sequence[Poll] = POLLS
) -> Records[Record]:
    """Ping latency alone and beside a bulk reader, for each way to poll, in turns.

    polls: of server and pinging client; the reader's is always adaptive.

    When stopped, returns the results so far, marked as interrupted.
    """
    results, stop = Results(), course.stop
    subjects = [Subject(f"udp, poll {poll}", LISTEN["udp"], poll) for poll in polls]

    def turn(subject: Subject) -> None:
        with (
            served(stop, [subject.listen], subject.poll) as (server, (address,)),
            ExitStack() as stack,
        ):
            client = stack.enter_context(Client(address, name="ping", poll=subject.poll))
            fill(client)
            delays = [stack.enter_context(run_delay(pid)) for pid in (None, server.pid)]

            def ping(workload: str) -> None:
                for op, us in zip(OPS, _pings(stop, client, delays, pings), strict=True):
                    results.keep(subject.name, op, workload, us)

            ping(ALONE)
            # Ended before the server: it would wait for an answer.
            with Worker(stop, partial(BulkReader, address)) as reader:
                reader.ready()
                with reader.doing("read"):
                    ping(BESIDE)

    with results.until_stopped():
        results.take_turns(course, subjects, turn)
    records = results.records("turns", OPS, workloads_first=True)
    return Records(records, results.derived(), results.distance)
