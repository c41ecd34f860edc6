"""Shared-memory links under load, and with nothing to do."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from system.command import serving
from system.local_link import cpu_seconds, linked, meeting_place

from drlnet import Client
from drlnet.bench.processes import Worker
from drlnet.bench.turns import BulkReader, fill
from drlnet.launch.signals import Stop

__all__ = ["meeting_place"]

IDLE_S = 4.0
IDLE_SHARE = 0.05  # of a core
PATIENCE_US = 1e6  # a ping's, on a machine that runs other tests


def test_a_client_killed_amid_a_large_reply(tmp_path: Path, meeting_place: Path) -> None:
    # Not memif: a server of that kind may crash with its client (see kDefaultLocalDriver).
    with ExitStack() as stack:
        also = ("--listen", "udp://127.0.0.1:0")
        server, address = stack.enter_context(serving(tmp_path, "dpdk:local:load", *also))
        # Over UDP: DPDK would stay in the process of all other tests.
        udp = json.loads(server.wait_for("ready"))["addresses"][1]
        client = stack.enter_context(Client(udp))
        fill(client)
        other = stack.enter_context(linked(address))

        def read_bytes() -> int:
            """By all readers: a new one is bulk-reader~2 until the server misses the killed one."""
            reading = client.stats().items()
            return sum(
                int(value)
                for name, value in reading
                if name.startswith("peer.bulk-reader") and name.endswith(".bytes_sent")
            )

        for _ in range(5):
            with Stop() as stop, Worker(stop, partial(BulkReader, address)) as reader:
                reader.ready()
                reader.begin("read")
                before = read_bytes()
                while read_bytes() <= before:
                    assert other.ping()["ping_us"] < PATIENCE_US
                os.kill(reader.pid, signal.SIGKILL)
                for _ in range(1000):
                    assert other.ping()["ping_us"] < PATIENCE_US
        assert server.popen.poll() is None, server.text()


@pytest.mark.parametrize("clients", [0, 2])
def test_an_idle_server_leaves_its_core_alone(
    tmp_path: Path, meeting_place: Path, clients: int
) -> None:
    with ExitStack() as stack:
        server, address = stack.enter_context(serving(tmp_path, "dpdk:local:idle"))
        processes = [stack.enter_context(linked(address)) for _ in range(clients)]
        for each in processes:
            assert "ping_us" in each.ping()
        began, used = time.monotonic(), cpu_seconds(server.popen.pid)
        others = [cpu_seconds(each.popen.pid) for each in processes]
        time.sleep(IDLE_S)  # what is measured is time itself
        passed = time.monotonic() - began
        share = (cpu_seconds(server.popen.pid) - used) / passed
        print(f"idle with {clients} clients: server {share:.2%} of a core")
        assert share < IDLE_SHARE
        for each, before in zip(processes, others, strict=True):
            assert (cpu_seconds(each.popen.pid) - before) / passed < IDLE_SHARE
