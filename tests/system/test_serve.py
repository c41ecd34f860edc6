"""`drlnet serve` and `drlnet stats`, as a user starts them."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest
from system.command import command, finished, server

from drlnet import errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_says_ready_and_stops_cleanly(tmp_path: Path, number: int) -> None:
    with command(tmp_path, "serve", "--listen", "udp://127.0.0.1:0") as serving:
        line = serving.wait_for("ready")
        assert "udp://127.0.0.1:" in line
        assert not line.endswith(":0")
        assert serving.end(number) == 0
        assert serving.err == b""


def test_serve_listens_on_several_addresses(tmp_path: Path) -> None:
    listen = ("--listen", "udp://127.0.0.1:0", "--listen", "udp://[::1]:0")
    with command(tmp_path, "serve", *listen, "--json") as serving:
        addresses = json.loads(serving.wait_for("ready"))["addresses"]
        assert len(addresses) == 2
        for address in addresses:
            assert finished(tmp_path, "stats", "--server", address, "--json").last_json()


def test_the_sampler_is_checked_before_anything_starts(tmp_path: Path) -> None:
    ended = finished(tmp_path, "serve", "--sampler", "amper-fr", "--set",
                     "server.sampler_options={m=3}", error=errors.ConfigError)  # fmt: skip
    assert b"has no option 'm'" in ended.err


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"udp://127.0.0.1:{taken.getsockname()[1]}"
        ended = finished(tmp_path, "serve", "--listen", address, error=errors.TransportError)
    assert address in ended.err.decode() or "in use" in ended.err.decode()
    assert len(ended.err.decode().splitlines()) == 2, ended.text()


def test_listening_for_everyone_must_be_asked_for(tmp_path: Path) -> None:
    ended = finished(tmp_path, "serve", "--listen", "udp://0.0.0.0:0", error=errors.Insecure)
    assert "--insecure" in ended.err.decode()
    with command(tmp_path, "serve", "--listen", "udp://0.0.0.0:0", "--insecure") as serving:
        serving.wait_for("ready")
        assert serving.end(signal.SIGTERM) == 0


def test_an_address_that_is_none(tmp_path: Path) -> None:
    wrong = (
        "udp://127.0.0.1:0,buffer=1",
        "udp://127.0.0.1:0,buffer",
        "udp://127.0.0.1:0,size=9999",
    )
    for address in ("nonsense", "tcp://127.0.0.1:1", "udp://127.0.0.1:notaport", *wrong):
        finished(tmp_path, "serve", "--listen", address, error=errors.TransportError)


def test_stats_prints_one_reading(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        reading = finished(tmp_path, "stats", "--server", address, "--json")
        assert reading.last_json()
        plain = finished(
            tmp_path, "stats", "--server", address, "--count", "2", "--interval", "0.1"
        )
        assert "bottleneck" in plain.out.decode()


@pytest.mark.exhaustive
def test_stats_of_a_server_that_does_not_answer(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"udp://127.0.0.1:{silent.getsockname()[1]}"
        words = ("stats", "--server", address, "--json")
        ended = finished(tmp_path, *words, deadline_s=30, error=errors.TransportError)
    assert address in ended.err.decode()
    assert ended.last_json()["error"]["exit_code"] == errors.TransportError.exit_code


@pytest.mark.parametrize("args", [["--help"], ["run", "--help"], ["--version"], ["serve", "-h"]])
def test_help(tmp_path: Path, args: list[str]) -> None:
    ended = finished(tmp_path, *args)
    assert max(map(len, ended.out.decode().splitlines())) <= 80


def test_wrong_usage_exits_with_2(tmp_path: Path) -> None:
    for args in (["run"], ["serve", "--nope"], ["nope"], ["actor", "X", "--num-actors", "many"]):
        finished(tmp_path, *args, code=2)
        said = finished(tmp_path, *args, "--json", code=2).last_json()["error"]
        assert (said["type"], said["exit_code"]) == ("UsageError", 2) and said["cause"]
