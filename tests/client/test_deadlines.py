"""Deadlines of a client whose process is stopped, as Ctrl-Z does."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from drlnet import Client

WAITS = """
import sys
from drlnet import Client, Column, Item, View
with Client(sys.argv[1]) as client:
    columns, item = {"x": Column("float32")}, Item({"x": View("x")})
    table = client.table("t", columns=columns, item=item, capacity=100)
    print(table.sample(1, timeout=3.0).views["x"])
"""

HELD = """
import sys
from drlnet import Client, Column, Item, Limiter, View
with Client(sys.argv[1]) as client:
    limiter = Limiter(samples_per_insert=1, error_buffer=2)
    columns, item = {"x": Column("int8")}, Item({"x": View("x")})
    table = client.table("t", columns=columns, item=item, capacity=100, limiter=limiter)
    writer = table.writer(1, flush_rows=1, held=lambda seconds: print(seconds, flush=True))
    for step in range(50):
        steps = writer.append({"x": [0]}, [step == 0], [False])
        writer.add_items([0], steps)
"""


def sleeps(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "S"


def ping_for(client: Client, seconds: float) -> None:
    over_s = time.monotonic() + seconds
    while time.monotonic() < over_s:
        client.ping()


@pytest.mark.slow  # one passes
def test_they_wait_for_the_process(address: str, tmp_path: Path) -> None:
    waits = [sys.executable, "-c", WAITS, address]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with (
        Client(address) as client,
        # In another folder than the checkout, whose package has no extension.
        subprocess.Popen(waits, cwd=tmp_path, **pipes) as waiting,
    ):
        while client.stats()["server.waiting_requests"] < 1:
            assert waiting.poll() is None
        waiting.send_signal(signal.SIGSTOP)
        ping_for(client, 4)
        waiting.send_signal(signal.SIGCONT)
        ping_for(client, 0.5)  # it looks at the clock now
        with client.attach("t").writer(1) as writer:
            first, last = np.array([True]), np.array([False])
            steps = writer.append({"x": np.array([7.0], np.float32)}, first, last)
            writer.add_items(np.array([0]), steps)
            writer.flush()
        assert waiting.stdout is not None
        assert (waiting.stdout.read(), waiting.wait()) == (b"[7.]\n", 0)


@pytest.mark.slow  # they pass
def test_what_a_writer_is_told_of_its_wait_leaves_that_time_out(
    address: str, tmp_path: Path
) -> None:
    holds = [sys.executable, "-c", HELD, address]
    with subprocess.Popen(holds, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as held:
        assert held.stdout is not None
        before_s = float(held.stdout.readline())
        while not sleeps(held.pid):  # not stopped on its way from the callback
            assert held.poll() is None
        held.send_signal(signal.SIGSTOP)
        time.sleep(4)
        held.send_signal(signal.SIGCONT)
        assert float(held.stdout.readline()) < before_s + 3
        held.kill()
