"""Does a 25 MB sample reply hold up another client's ping?

Three processes share the machine: the server, a client that samples 25 MB batches without a pause,
and this one, which pings. On fewer than three cores they also compete for processor time, which
says nothing about the server's turns; so the reader gets only what the others leave (SCHED_IDLE),
unless it is told to compete. Server and pinging client sleep at every wait (poll "block"):
spinning, they would lose the core to the reader now and then, and the wake-up that follows costs
ten pings of two spinning processes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from drlnet.bench.records import Record, Records
from drlnet.client import Client, Column, Item, Table, View
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Supervisor

BATCH = 512  # x 7 frames of 7,056 B: 25.3 MB, an Atari batch of four frames and three steps
_ROWS, _STREAMS = 8192, 4
_READY_DEADLINE_S = 30.0
_SERVE = ["serve", "--json", "--poll", "block", "--listen", "udp://127.0.0.1:0"]


def _open(client: Client) -> Table:
    return client.table(
        "turns",
        columns={"obs": Column("uint8", (84, 84))},
        item=Item({"obs": View("obs", (-3, 0)), "next_obs": View("obs", (0, 3), from_end=True)}),
        capacity=_ROWS,
    )


def _fill(table: Table) -> None:
    frames = np.random.default_rng(0).integers(0, 255, (_STREAMS, 84, 84), np.uint8)
    streams = np.arange(_STREAMS)
    last = np.zeros(_STREAMS, np.bool_)
    with table.writer(_STREAMS) as writer:
        for step in range(_ROWS // _STREAMS):
            steps = writer.append({"obs": frames}, np.full(_STREAMS, step == 0), last)
            writer.add_items(streams, steps)


def _pings(client: Client, count: int) -> list[float]:
    return [client.ping() for _ in range(count)]


def read_in_bulk(address: str, stop: Stop, ready: Callable[[], None]) -> float:
    """Samples batches until stopped; bytes per second. The other side of measure_turns()."""
    with Client(address, name="bulk-reader") as client:
        table = _open(client)
        table.sample(BATCH)
        ready()
        batches, started = 0, time.monotonic()
        while not stop.is_set():
            table.sample(BATCH)
            batches += 1
        return batches * BATCH * 7 * 7056 / (time.monotonic() - started)


def measure_turns(
    stop: Stop, *, rounds: int = 7, pings: int = 5000, compete: bool = False
) -> Records:
    """Ping latency alone and beside a bulk reader, in alternation."""
    alone: list[list[float]] = []
    beside: list[list[float]] = []
    with Supervisor(stop) as group:
        server = group.start("server", _SERVE)
        address = group.wait_for_line(server, "ready", _READY_DEADLINE_S)["addresses"][0]
        with Client(address, name="ping", poll="block") as client:
            _fill(_open(client))
            for _ in range(rounds):
                alone.append(_pings(client, pings))
                reader = group.start("reader", ["bench", "bulk-reader", address])
                if not compete:
                    os.sched_setscheduler(reader.pid, os.SCHED_IDLE, os.sched_param(0))
                group.wait_for_line(reader, "ready", _READY_DEADLINE_S)
                beside.append(_pings(client, pings))
                group.end([reader])
    class_name = "competing for cores" if compete else "SCHED_IDLE"
    workload = f"25 MB sample replies to another client ({class_name})"
    return Records(
        [
            Record.of("turns", "udp", "alone", "ping", alone),
            Record.of("turns", "udp", workload, "ping", beside),
        ]
    )
