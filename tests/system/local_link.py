"""What the tests of shared-memory links share: a place of their own, servers, clients."""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from system.command import DEADLINE_S, finished

from drlnet.errors import TransportError

DRIVERS = ("virtio-user", "memif")


@functools.cache
def _error_of_no_server() -> str:
    """Where this machine has such links: that no server of that name is there."""
    with tempfile.TemporaryDirectory(prefix="dl-") as name, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", name)
        tried = finished(
            Path(name), "stats", "--server", "dpdk:local:none", "--json", error=TransportError
        )
    return tried.err.decode()


@pytest.fixture
def meeting_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder where this test's servers can be met. Short: a socket's path has 107 letters."""
    if "no server of that name" not in _error_of_no_server():
        pytest.skip(_error_of_no_server().splitlines()[0])
    folder = Path(tempfile.mkdtemp(prefix="dl-"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    yield folder / "drlnet"
    shutil.rmtree(folder)


class LinkedClient:
    """A process of linking.py; count: how many clients it has, each with a link of its own."""

    def __init__(self, address: str, count: int) -> None:
        script = Path(__file__).with_name("linking.py")
        self.popen = subprocess.Popen(
            [sys.executable, str(script), address, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.said = self.read()

    def read(self) -> dict[str, Any]:
        assert self.popen.stdout is not None
        ready, _, _ = select.select([self.popen.stdout], [], [], DEADLINE_S)
        assert ready, "the client says nothing"
        values = json.loads(self.popen.stdout.readline())
        assert isinstance(values, dict)
        return values

    def ping(self) -> dict[str, Any]:
        assert self.popen.stdin is not None
        self.popen.stdin.write(b"ping\n")
        self.popen.stdin.flush()
        return self.read()

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait(DEADLINE_S)
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def linked(address: str, count: int = 1) -> Iterator[LinkedClient]:
    """A process of clients that does not outlive the block."""
    client = LinkedClient(address, count)
    try:
        yield client
    finally:
        client.kill()


def cpu_seconds(pid: int) -> float:
    """What all threads of a process have used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
