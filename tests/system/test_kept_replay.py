"""Runs that go on with their replay: --keep-replay, and a learner at a server with a state."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from system.command import SMALL, command, finished, learned_since
from system.stateful import free_address

from drlnet import errors
from drlnet.metrics import RunFolder

ENV = "CartPole-v1"


def test_a_resumed_run_finds_its_replay(tmp_path: Path) -> None:
    budget = "--max-learner-steps"
    ended = finished(tmp_path, "run", ENV, budget, "60", "--keep-replay", "--json", *SMALL)
    first = ended.last_json()
    kept = str(Path(first["run_dir"]) / "replay")
    before = finished(tmp_path, "state", "ls", kept, "--json").last_json()
    assert before["starts"] == 1 and before["tables"][0]["env_steps"] >= first["env_steps"] > 0
    ended = finished(tmp_path, "run", "--resume", first["run_dir"], budget, "90", "--json")
    second = ended.last_json()
    files = [Path(first["run_dir"]) / name for name in ("config.toml", "result.json")]
    contents = [file.read_bytes() for file in files]
    other = ("--set", "replay.batch_size=64", budget, "120", "--json")
    refused = finished(
        tmp_path, "run", "--resume", first["run_dir"], *other, error=errors.CheckpointMismatch
    )
    assert "replay.batch_size = 32, not 64" in refused.text()
    assert [file.read_bytes() for file in files] == contents
    after = finished(tmp_path, "state", "ls", kept, "--json").last_json()
    assert after["starts"] == 2 and after["damage"] == []
    assert after["params_version"] > before["params_version"]
    # The table has counted the steps of both parts, and the run counts each once.
    assert after["tables"][0]["env_steps"] >= second["env_steps"]
    assert second["env_steps"] >= before["tables"][0]["env_steps"]


def test_an_interrupted_run_keeps_its_replay(tmp_path: Path) -> None:
    with command(tmp_path, "run", ENV, "--keep-replay", "--json", *SMALL) as running:
        running.wait_for("training")
        folder = RunFolder(next((tmp_path / "runs").iterdir()))
        learned_since(running, folder, 0.0)
        running.end(signal.SIGTERM)
    state = finished(tmp_path, "state", "ls", str(folder.replay_path), "--json").last_json()
    assert state["damage"] == [] and state["tables"][0]["rows"] >= 200
    assert state["tables"][0]["env_steps"] >= folder.last_reading("learner")["env_steps"]


def test_a_learner_goes_on_with_the_rows_of_a_server_that_was_killed(tmp_path: Path) -> None:
    address = free_address()
    serve = ("serve", "--listen", address, "--state", "state", "--durability", "0.1")
    at = ("--server", address, "--json")
    small = (*SMALL, "--set", "replay.samples_per_insert=0")
    with command(tmp_path, *serve) as server:
        server.wait_for("ready")
        with command(tmp_path, "actor", ENV, *at, *small) as playing:
            learn = ("learn", ENV, *at, *small, "--max-learner-steps", "60")
            ended = finished(tmp_path, *learn)
            first = ended.last_json()
            playing.end(signal.SIGTERM)
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
    with command(tmp_path, *serve) as server:
        server.wait_for("ready")
        # Without an actor: what it learns from is what the server has kept.
        again = ("learn", "--resume", first["run_dir"], *at, "--max-learner-steps", "90")
        ended = finished(tmp_path, *again)
        second = ended.last_json()
        assert second["learner_steps"] == 90 and second["env_steps"] >= first["env_steps"]


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        (("--serial", "--max-env-steps", "2000"), "run.keep_replay with run.serial"),
        (("--set", "server.state=elsewhere"), "run.keep_replay with server.state"),
        (("--set", "server.elsewhere=1"), "run.keep_replay with shards on other hosts"),
        (("--set", "server.index_only=true", "--set", "replay.rows=learner"), "server.index_only"),
    ],
)
def test_what_it_does_not_go_with(tmp_path: Path, more: tuple[str, ...], cause: str) -> None:
    ended = finished(tmp_path, "run", ENV, "--keep-replay", *more, error=errors.ConfigError)
    assert cause in ended.err.decode() and not list(tmp_path.iterdir())
