"""`drlnet bench paper` as its user types it: interrupted, role by role, with options that clash."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest
from system.command import all_ended, command, descendants, finished, server

from drlnet.errors import ConfigError, Insecure, TableMismatch


@pytest.mark.exhaustive
def test_ctrl_c_keeps_what_was_measured_and_leaves_no_process(tmp_path: Path) -> None:
    args = ("bench", "paper", "--quick", "--json", "--transports", "udp")
    with command(tmp_path, *args, "--out", str(tmp_path)) as running:
        running.wait_for(r"round 1 of 2: \(b\), \(c\), udp block, 7 KB")
        running.wait_for(r"round 1 of 2: \(b\), \(c\), udp block, 40 B")
        below = list(descendants(running.popen.pid))
        assert running.end(signal.SIGINT) == 128 + signal.SIGINT, running.text()
    assert all_ended(below)
    written = json.loads((tmp_path / "paper.json").read_text(encoding="utf-8"))
    assert written["interrupted"]
    assert running.last_json() == written
    assert "interrupted: what is shown" in running.err.decode()
    subjects = {record["subject"] for record in written["records"]}
    assert "(c) in-network, udp block" in subjects


def test_roles_by_hand(tmp_path: Path) -> None:
    paper = ("bench", "paper", "--set", "size=cartpole")
    serve = ("serve", "--listen", "udp://127.0.0.1:0", "--json")
    with command(tmp_path, *serve) as serving:
        (address,) = json.loads(serving.wait_for("ready"))["addresses"]
        with command(tmp_path, *paper, "--role", "actor", "--server", address) as acting:
            acting.wait_for(f"storing at {address}; Ctrl-C stops it")
            learner = ("--role", "learner", "--server", address, "--set", "seconds=0.05")
            ended = finished(tmp_path, *paper, *learner)
            assert "(c) in-network: batch + update of 32: p50" in ended.out.decode()
            mirrored = finished(tmp_path, *paper, *learner, "--set", "layouts=d")
            assert "(d) rows at learner: batch + update of 32: p50" in mirrored.out.decode()
            other = finished(tmp_path, *paper[:2], *learner, error=TableMismatch)
            assert "same size" in other.err.decode()
            assert finished(tmp_path, *paper, *learner, "--json").last_json()["event"] == "finished"
            long = (*learner[:-1], "seconds=30")
            with command(tmp_path, *paper, *long) as running:
                running.wait_for("ping: p50")
                assert running.end(signal.SIGINT) == 128 + signal.SIGINT, running.text()
            assert "interrupted" in running.out.decode()
            assert acting.end(signal.SIGINT) == 128 + signal.SIGINT, acting.text()
    here = ("--role", "learner", "--server", "udp://127.0.0.1:0", "--set", "layouts=a")
    with command(tmp_path, *paper, *here) as waiting:
        waiting.wait_for("ready: listening on udp://127.0.0.1:")
        waiting.wait_for("in the learner: batch of 512: p50")
        assert waiting.end(signal.SIGINT) == 128 + signal.SIGINT, waiting.text()


@pytest.mark.parametrize("role", ["actor", "learner"])
def test_a_role_that_nobody_answers_says_so(tmp_path: Path, role: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mute:
        mute.bind(("127.0.0.1", 0))
        address = f"udp://127.0.0.1:{mute.getsockname()[1]}"
        with command(tmp_path, "bench", "paper", "--role", role, "--server", address) as waiting:
            waiting.wait_for(f"no answer from {address} yet; it has 10 s to start")
            assert waiting.end(signal.SIGINT) == 128 + signal.SIGINT, waiting.text()
        if role == "learner":
            assert "interrupted: nothing was measured until then" in waiting.out.decode()


@pytest.mark.parametrize("role", ["actor", "learner"])
def test_a_server_of_several_shards_is_refused(tmp_path: Path, role: str) -> None:
    with server(tmp_path, "--shards", "2") as address:
        at = ("--role", role, "--server", address)
        ended = finished(tmp_path, "bench", "paper", *at, error=ConfigError)
    assert "has 2 shards" in ended.err.decode() and "without --shards" in ended.err.decode()


@pytest.mark.parametrize(
    ("args", "cause"),
    [
        (["--netns", "--transports", "udp"], "--netns compares drivers of its own"),
        (["--mtu", "1500"], "--mtu is of the veth pairs"),
        (["--quick", "--set", "size=cartpole"], "--set is of one role"),
        (["--role", "learner", "--quick"], "--quick is for all roles"),
        (["--role", "learner", "--set", "rate=many"], "rate = 'many': expected a number"),
        (["--role", "learner", "--set", "sise=frame"], "no setting of a role is called 'sise'"),
        (["--role", "learner", "--set", "seconds=0"], "seconds = 0.0: the least is 0.01"),
        (["--role", "actor", "--set", "rate=-1"], "rate = -1.0: the least is 0"),
        (["--role", "actor", "--set", "rate=nan"], "rate = nan: expected a finite number"),
        (["--role", "learner", "--set", "size=large"], "size = 'large': expected one of"),
        (
            ["--role", "learner", "--set", "layouts=a", "--server", "udp://0.0.0.0:0"],
            "can be reached from other machines",
        ),
    ],
)
def test_the_command_refuses_what_does_not_fit_together(
    tmp_path: Path, args: list[str], cause: str
) -> None:
    error = Insecure if "other machines" in cause else ConfigError
    ended = finished(tmp_path, "bench", "paper", "--json", *args, error=error)
    assert cause in ended.last_json()["error"]["cause"]
    assert ended.last_json()["error"]["remedy"]
