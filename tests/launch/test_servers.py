"""The registry of live servers: which are in it, which are not, and what a dead one leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drlnet.cli.which import server_to_join, server_to_watch
from drlnet.errors import ConfigError, RunFolderError
from drlnet.launch.servers import announced, live_servers

KILLED = """
import sys, time
from drlnet.launch.servers import announced
with announced(["udp://127.0.0.1:1"], None):
    print("there", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "drlnet-servers"


def test_a_server_is_found_while_it_is_announced(runtime: Path, tmp_path: Path) -> None:
    assert server_to_join(None) == server_to_watch(None, None) == "udp://127.0.0.1:7447"
    with announced(["dpdk:local", "udp://127.0.0.1:1"], None):
        assert server_to_join(None) == server_to_watch(None, None) == "udp://127.0.0.1:1"
        assert server_to_join("udp://h:2") == "udp://h:2"
        with announced(["udp://127.0.0.1:3"], tmp_path / "run"):
            # A run's own server is no one else's to join.
            assert server_to_join(None) == "udp://127.0.0.1:1"
            with pytest.raises(ConfigError, match="2 servers are live") as raised:
                server_to_watch(None, None)
            assert "--server udp://127.0.0.1:1" in raised.value.remedy
            assert "udp://127.0.0.1:3" in raised.value.remedy
    assert live_servers() == []
    assert list(runtime.iterdir()) == []
    assert runtime.stat().st_mode & 0o777 == 0o700


def test_what_a_killed_server_leaves_is_removed(runtime: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED],
        cwd=runtime.parent,  # away from the checkout, which holds the package's sources
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline() == "there\n"
        assert [one.pid for one in live_servers()] == [serving.pid]
        serving.send_signal(signal.SIGKILL)
        serving.wait()
    assert len(list(runtime.iterdir())) == 1
    assert live_servers() == []
    assert list(runtime.iterdir()) == []


def test_servers_of_other_network_namespaces_are_not_ours(runtime: Path) -> None:
    with announced(["udp://127.0.0.1:1"], None):
        (path,) = runtime.iterdir()
        values = json.loads(path.read_text())
        path.write_text(json.dumps({**values, "network": values["network"] + 1}))
        assert live_servers() == []
        assert path.exists()


def test_a_folder_that_others_may_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "drlnet-servers"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with announced(["udp://127.0.0.1:1"], None):  # where there is no runtime folder
        assert os.getpid() in [one.pid for one in live_servers()]
        assert list(folder.iterdir()) == []


def test_a_run_that_is_none_or_has_no_server(runtime: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="is not a run's folder"):
        server_to_watch(str(tmp_path), None)
    with pytest.raises(RunFolderError, match="is an address") as raised:
        server_to_watch("udp://127.0.0.1:1", None)
    assert raised.value.remedy == "give it as --server udp://127.0.0.1:1"
    with pytest.raises(ConfigError, match="each names a server"):
        server_to_watch(str(tmp_path), "udp://127.0.0.1:1")
