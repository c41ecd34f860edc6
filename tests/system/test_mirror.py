"""A mirror over its server's restart, and over its learner's death (help client)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from system.command import command
from system.test_state import (
    DEADLINE_S,
    STREAMS,
    Filling,
    free_address,
    on_disk,
    open_table,
    serving,
    wait_until,
)

from drlnet import errors
from drlnet.client import Batch, Client, Mirror, Table


def drawn(mirror: Mirror, table: Table) -> Batch:
    """A batch whose rows are those of its items, as the server reads them."""
    batch = mirror.sample(64, timeout=DEADLINE_S)
    read = table.read_items(batch.keys)
    held = read.keys == batch.keys
    assert held.any()
    for name, values in batch.views.items():
        np.testing.assert_array_equal(values[held], read.views[name][held])
    return batch


def test_a_mirror_goes_on_when_its_server_comes_back(tmp_path: Path) -> None:
    address = free_address()
    with serving(tmp_path, address) as server, Client(address, timeout=DEADLINE_S) as client:
        table = open_table(client)
        filling = Filling(table)
        filling.append(300)
        filling.writer.flush()
        mirror = table.mirror()
        stream = mirror.stream(64, timeout=DEADLINE_S)
        first = drawn(mirror, table)
        next(stream)
        wait_until(lambda: on_disk(client))
        server.popen.kill()
        server.popen.wait()
        with serving(tmp_path, address):
            filling.append(300)
            filling.writer.flush()
            seen: set[int] = set()
            while not any(x % 10**6 >= 550 for x in seen):
                batch = drawn(mirror, table)
                assert batch.keys.min() > first.keys.max()  # of another life
                seen |= {int(x) for x in batch.views["x"][:, 1]}
            for _ in range(5):  # with what was asked for ahead
                views = next(stream).views
                rows = views["x"][:, 1] % 251
                np.testing.assert_array_equal(views["image"][:, 0], rows)
            wait_until(lambda: mirror.stats()["mirror.rows_behind"] == 0)
            assert mirror.stats()["mirror.rows"] >= (300 + 600) * STREAMS
        mirror.close()


def test_a_mirror_of_a_server_that_is_another_ends(tmp_path: Path) -> None:
    address = free_address()
    serve = ("serve", "--listen", address)
    with command(tmp_path, *serve) as server, Client(address, timeout=DEADLINE_S) as client:
        server.wait_for("ready")
        table = open_table(client)
        filling = Filling(table)
        filling.append(100)
        filling.writer.flush()
        mirror = table.mirror()
        drawn(mirror, table)
        server.popen.kill()
        server.popen.wait()
        with command(tmp_path, *serve) as other:
            other.wait_for("ready")
            with pytest.raises(errors.SessionLost, match="another server is in the place"):
                mirror.sample(64, timeout=DEADLINE_S)
        mirror.close()


LEARNER = """
import sys
import numpy as np
from drlnet import Client
from system.test_state import open_table

client = Client(sys.argv[1], name="learner", poll="block")
mirror = open_table(client).mirror()
while True:
    batch = mirror.sample(64)
    x = batch.views["x"][:, 1]
    assert (batch.views["image"][:, 0] == x % 251).all()
    mirror.update_priorities(batch.keys, np.ones(64))
    print(int((x % 10**6).max()), flush=True)
"""


def learner(address: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", LEARNER, address],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_learner_that_is_killed_in_mid_follow_resumes(tmp_path: Path) -> None:
    """Rows come all the time: whenever it dies, some are on their way to it."""
    with command(tmp_path, "serve", "--listen", "udp://127.0.0.1:0", "--json") as server:
        (address,) = json.loads(server.wait_for("ready"))["addresses"]
        with Client(address, timeout=DEADLINE_S) as client:
            filling = Filling(open_table(client))
            filling.append(1000)
            for _ in range(3):
                one = learner(address, tmp_path)
                assert one.stdout is not None
                begun = filling.t
                try:
                    while int(one.stdout.readline()) < begun - 50:  # not it alone goes on
                        filling.append(20)
                finally:
                    os.kill(one.pid, signal.SIGKILL)
                    one.communicate(timeout=DEADLINE_S)
            filling.writer.flush()
            stats = client.stats()
            assert stats["table.replay.applied_updates"] >= 3 * 64
            assert stats["table.replay.env_steps"] > 1000
