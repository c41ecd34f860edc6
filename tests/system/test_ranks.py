"""Several learner processes: they learn as one does, and end together."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from system.command import (
    SMALL,
    Command,
    all_ended,
    command,
    descendants,
    finished,
    learned_since,
    lines_of_error,
    server,
)
from system.sshd import free_port

from drlnet.errors import ConfigError, RoleFailed
from drlnet.metrics import RunFolder

ENV = "CartPole-v1"
TWO = ("--set", "learner.processes=2")


def rank_1(folder: Path, address: str) -> int:
    """The process of rank 1, once it reports."""
    for _ in range(100):
        reading = finished(folder, "stats", "--server", address, "--json").last_json()
        if "client.rank-1.pid" in reading:
            return int(reading["client.rank-1.pid"])
    raise AssertionError("rank 1 reports nothing")


def test_two_processes_learn_cartpole(tmp_path: Path) -> None:
    words = ("run", ENV, "--seed", "1", "--json", "--max-seconds", "300", *TWO)
    ended = finished(tmp_path, *words, deadline_s=420)
    result = ended.last_json()
    assert result["stopped"] == "goal" and result["eval_return_mean"] >= 475
    readings = RunFolder(Path(result["run_dir"])).readings()
    # When the run's last one came, rank 1 may have left.
    last = [reading for reading in readings if "client.rank-1.batch_size" in reading][-1]
    # Each drew and sent its half.
    assert last["client.rank-1.batch_size"] * 2 == last["client.learner.batch_size"]
    steps = last["client.rank-1.learner_steps"]
    assert 0 < steps <= result["learner_steps"]
    assert last["table.replay.applied_updates"] > 1.5 * steps * last["client.rank-1.batch_size"]


def test_a_run_goes_on_after_a_rank_that_dies(tmp_path: Path) -> None:
    """Each with the rows of a shard of its own."""
    own_rows = ("--set", "replay.rows=learner", "--set", "server.shards=2")
    words = ("run", ENV, *SMALL, *TWO, *own_rows, "--json", "--max-learner-steps", "1000000")
    with command(tmp_path, *words) as running:
        running.wait_for("learner_steps [1-9]")
        (path,) = (tmp_path / "runs").iterdir()
        address = json.loads((path / "live.json").read_text())["server"]
        others = [*descendants(running.popen.pid)]
        killed = rank_1(tmp_path, address)
        reading = finished(tmp_path, "stats", "--server", address, "--json").last_json()
        assert reading["client.rank-1.mirror.drawn"] > 0 < reading["client.learner.mirror.drawn"]
        before = RunFolder(path).last_reading("learner")["learner_steps"]
        os.kill(killed, signal.SIGKILL)
        running.wait_for("learner restarts 1", deadline_s=120)
        learned_since(running, RunFolder(path), time.time())
        assert running.end(signal.SIGTERM, deadline_s=120) == 143, running.text()
        result = running.last_json()
        assert result["failures"] == ["learner: rank-1 was killed by SIGKILL"]
        assert result["learner_restarts"] == 1 and result["learner_steps"] > before
        assert all_ended(others)
    assert (path / "rank-1.log").is_file()


def test_a_learner_by_hand_ends_with_its_rank_and_resumes(tmp_path: Path) -> None:
    with (
        server(tmp_path) as address,
        command(tmp_path, "actor", ENV, "--server", address, *SMALL),
    ):
        with command(tmp_path, *learning(address)) as running:
            running.wait_for("learner_steps [1-9]")
            others = [*descendants(running.popen.pid)]
            os.kill(rank_1(tmp_path, address), signal.SIGKILL)
            assert running.end() == RoleFailed.exit_code, running.text()
            cause, remedy = lines_of_error(running)[-2:]
            assert "rank-1 was killed by SIGKILL" in cause and "rank-1.log" in remedy
            assert all_ended(others)
        (path,) = (tmp_path / "runs").iterdir()
        assert (path / "learner.safetensors").is_file()
        own = ("--server", address, "--json", "--max-learner-steps", "1")
        resumed = finished(tmp_path, "learn", "--resume", str(path), *own)
        assert resumed.last_json()["learner_steps"] > 1


def learning(address: str, *more: str) -> list[str]:
    return ["learn", ENV, "--server", address, *SMALL, *TWO, "--json", *more]


def test_a_signal_ends_all_of_them(tmp_path: Path) -> None:
    number = signal.SIGTERM
    # One that only rank 0 gets, first while all wait for rows.
    with server(tmp_path) as address:
        with command(tmp_path, *learning(address)) as waiting:
            waiting.wait_for("waiting for actors|no actor")
            others = [*descendants(waiting.popen.pid)]
            assert len(others) == 2  # the evaluator, too
            assert waiting.end(number) == 128 + number, waiting.text()
            assert all_ended(others)
        with (
            command(tmp_path, "actor", ENV, "--server", address, *SMALL),
            command(tmp_path, *learning(address)) as running,
        ):
            running.wait_for("learner_steps [1-9]")
            others = [*descendants(running.popen.pid)]
            assert running.end(number) == 128 + number, running.text()
            assert all_ended(others) and "error" not in running.err.decode()
            assert Path(running.last_json()["run_dir"], "checkpoint.safetensors").is_file()


def test_none_outlives_rank_0(tmp_path: Path) -> None:
    with (
        server(tmp_path) as address,
        command(tmp_path, "actor", ENV, "--server", address, *SMALL),
        command(tmp_path, *learning(address)) as running,
    ):
        running.wait_for("learner_steps [1-9]")
        others = [*descendants(running.popen.pid)]
        assert running.end(signal.SIGKILL) == -signal.SIGKILL
        assert all_ended(others)


@pytest.mark.exhaustive
def test_ranks_started_one_by_one_as_torchrun_does(tmp_path: Path) -> None:
    told = ["env", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", f"MASTER_PORT={free_port()}"]
    told += ["GLOO_SOCKET_IFNAME=lo"]

    def ranked(rank: int, address: str) -> AbstractContextManager[Command]:
        words = learning(address, "--max-learner-steps", "300")
        return command(tmp_path, *words, within=[*told, f"RANK={rank}"])

    with (
        server(tmp_path) as address,
        command(tmp_path, "actor", ENV, "--server", address, *SMALL),
        ranked(0, address) as first,
        ranked(1, address) as second,
    ):
        assert first.end() == 0, first.text()
        assert second.end() == 0, second.text()
        assert first.last_json()["learner_steps"] == 300
    assert len([*(tmp_path / "runs").iterdir()]) == 1  # rank 0's


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["FrozenLake-v1", "--algo", "tabular"], "no gradients to average"),
        ([ENV, "--serial", "--max-env-steps", "9999"], "a serial run is one process"),
        ([ENV, "--set", "replay.batch_size=33"], "cannot share out replay.batch_size = 33"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_starts(
    tmp_path: Path, words: list[str], told: str
) -> None:
    ended = finished(tmp_path, "run", *words, *TWO, error=ConfigError)
    cause, _remedy = lines_of_error(ended)
    assert told in cause
    assert not (tmp_path / "runs").exists()
