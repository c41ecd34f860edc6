"""Does a 25 MB sample reply hold up another client's ping?

Three processes share the machine, none of them favoured: the server, a client that samples 25 MB
batches without a pause, and this one, which pings. Each wants a core to itself; with fewer, some
pings wait for a core and not for the server. So each latency is recorded twice: as it was, and "on
a core", which leaves out the time that the kernel counts as waiting for one, in the pinging thread
or in the server's, whichever waited longer (the two may overlap; so at least what is left over was
spent on the server's turns and the network).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from drlnet.bench.machine import CoreDistance, Cores, RunDelay
from drlnet.bench.processes import Stopped, Worker, served
from drlnet.bench.records import Record, Records
from drlnet.client import Client, Column, Item, Table, View
from drlnet.launch.process import Process
from drlnet.launch.signals import Stop

BATCH = 512  # x 7 frames of 7,056 B: 25.3 MB, an Atari batch of four frames and three steps
ALONE, BESIDE = "alone", "beside 25 MB sample replies"
Poll = Literal["adaptive", "busy", "block"]
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
    table = _open(client)
    frames = np.random.default_rng(0).integers(0, 255, (_STREAMS, 84, 84), np.uint8)
    streams = np.arange(_STREAMS)
    last = np.zeros(_STREAMS, np.bool_)
    with table.writer(_STREAMS) as writer:
        for step in range(_ROWS // _STREAMS):
            steps = writer.append({"obs": frames}, np.full(_STREAMS, step == 0), last)
            writer.add_items(streams, steps)


class BulkReader:
    """The process that samples batches. Called from another one (Worker)."""

    def __init__(self, address: str) -> None:
        self._client = Client(address, name="bulk-reader")
        self._table = _open(self._client)
        self._table.sample(BATCH)

    def hear(self, asked: Callable[[], bool]) -> None:
        self._asked = asked

    def read(self) -> float:
        """Samples until asked for something else: bytes per second."""
        batches, started = 0, time.monotonic()
        while not self._asked():
            self._table.sample(BATCH)
            batches += 1
        return batches * BATCH * 7 * 7056 / (time.monotonic() - started)

    def close(self) -> None:
        self._client.close()


@dataclass
class _Pinger:
    """Pings one server, and keeps the latencies of each round, in microseconds."""

    poll: Poll
    server: Process
    client: Client
    delays: Sequence[RunDelay]
    rounds: dict[tuple[str, str], dict[int, list[float]]] = field(default_factory=dict)

    def ping(self, stop: Stop, workload: str, number: int, count: int) -> bool:
        """The round of that number, recorded under the workload; False when stopped before."""
        seen: list[float] = []
        on_core: list[float] = []
        with suppress(KeyboardInterrupt), stop.interrupts():
            for _ in range(count):
                before = [delay.total_us() for delay in self.delays]
                latency = self.client.ping()
                after = [delay.total_us() for delay in self.delays]
                seen.append(latency)
                waited = max(late - early for early, late in zip(before, after, strict=True))
                on_core.append(max(latency - waited, 0.0))
        if len(on_core) < count:
            return False
        self.rounds.setdefault((workload, "ping"), {})[number] = seen
        self.rounds.setdefault((workload, "ping on a core"), {})[number] = on_core
        return True

    @contextmanager
    def server_stopped(self) -> Iterator[None]:
        """Its cores are free, however it polls."""
        self.server.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.server.signal(signal.SIGCONT)

    def records(self) -> list[Record]:
        return [
            Record.of("turns", f"udp, poll {self.poll}", workload, op, rounds)
            for (workload, op), rounds in self.rounds.items()
        ]


def measure_turns(
    stop: Stop, *, rounds: int = 7, pings: int = 5000, polls: Sequence[Poll] = POLLS
) -> Records[Record]:
    """Ping latency alone and beside a bulk reader, in alternation, for each way to poll.

    Server and pinging client poll in the same way; the reader always adaptively. When stopped,
    returns what there is, marked as interrupted.
    """
    records: list[Record] = []
    distance = CoreDistance()
    with suppress(Stopped):
        for poll in polls:  # one server at a time: a busy one would take a core from the next
            if stop.is_set():
                break
            listen = ["udp://127.0.0.1:0"]
            with served(stop, listen, poll) as (server, (address,)), ExitStack() as stack:
                client = stack.enter_context(Client(address, name="ping", poll=poll))
                fill(client)
                delays = [stack.enter_context(RunDelay(pid)) for pid in (None, server.pid)]
                pinger = _Pinger(poll, server, client, delays)
                try:
                    _alternate(stop, pinger, rounds, pings, distance)
                finally:
                    records += pinger.records()
    return Records(records, {"interrupted": stop.is_set()}, distance)


def _alternate(
    stop: Stop, pinger: _Pinger, rounds: int, pings: int, distance: CoreDistance
) -> None:
    cores = Cores.usable()
    for number in range(1, rounds + 1):
        distance.begin_round()
        with pinger.server_stopped():
            distance.look(cores, f"udp, poll {pinger.poll}")
        if not pinger.ping(stop, ALONE, number, pings):
            return
        # Ended before the server: it would wait for an answer.
        with Worker(stop, partial(BulkReader, pinger.client.address)) as reader:
            reader.ready()
            with reader.doing("read"):
                if not pinger.ping(stop, BESIDE, number, pings):
                    raise Stopped
