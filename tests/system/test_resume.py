"""Streams outlive the process that wrote them: another one goes on where the server stands."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import OracleTable
from system.command import DEADLINE_S, server
from system.streaming import SPEC, STREAMS, append

from drlnet import Client, StreamLease
from drlnet.errors import ConfigError, UnknownLease

pytestmark = pytest.mark.fast

SEAM = 14  # in the middle of an episode, between rows that one item reads


@contextmanager
def streaming(*args: str) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    """Such a process, and what it said once its rows were appended."""
    script = Path(__file__).with_name("streaming.py")
    with subprocess.Popen(
        [sys.executable, str(script), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
            assert ready, "it says nothing"
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def test_streams_of_a_killed_process_are_resumed_by_another(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        # The two rows that the first process has not sent die with it.
        with streaming(address, str(SEAM), str(SEAM + 2), "[]") as (process, said):
            assert said["begun"] == [0] * STREAMS
            assert [lease[3] for lease in said["leases"]] == [SEAM + 2] * STREAMS
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait(DEADLINE_S) == -signal.SIGKILL
        with streaming(address, "33", "33", json.dumps(said["leases"])) as (_, resumed):
            assert resumed["begun"] == [SEAM] * STREAMS
            names = [lease[:3] for lease in said["leases"]]
            assert [lease[:3] for lease in resumed["leases"]] == names
            with Client(address) as client:
                check(client)


def check(client: Client) -> None:
    """The table holds one unbroken run of each stream, and every item is the oracle's."""
    oracle = OracleTable(**SPEC)
    writer = oracle.writer(STREAMS)
    for step in range(33):
        append(writer, step)
    stats = client.stats()
    assert stats["table.resumed.rows"] == 33 * STREAMS
    assert stats["table.resumed.rows_ignored"] == 0
    assert stats["table.resumed.items_retired"] == 0
    assert stats["table.resumed.streams_leased"] == STREAMS
    batch = client.table("resumed", **SPEC).sample(2000)
    live = {stream * 1000 + step: (stream, step) for stream, step in oracle.live()}
    assert set(batch.views["id"].tolist()) == live.keys()
    assert any(step < SEAM <= step + 3 for _, step in live.values())
    for index, row_id in enumerate(batch.views["id"].tolist()):
        views, length = oracle.read(*live[row_id])
        assert batch.length[index] == length
        for name, expected in views.items():
            np.testing.assert_array_equal(batch.views[name][index], expected, err_msg=name)


def test_leases_that_cannot_be_resumed(tmp_path: Path) -> None:
    with server(tmp_path) as address, Client(address) as client:
        table = client.table("resumed", **SPEC)
        lease = table.writer(1).leases[0]
        with pytest.raises(UnknownLease):
            table.writer(1, resume=[lease._replace(token=lease.token ^ 1)])
        with pytest.raises(ConfigError, match="2 streams to resume 1"):
            table.writer(2, resume=[StreamLease(*lease)])
