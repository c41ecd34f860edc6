"""Commands that join a run by its server's address alone."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from system.command import (
    DEADLINE_S,
    SMALL,
    Command,
    command,
    finished,
    lines_of_error,
    server,
)

from drlnet import errors
from drlnet.metrics import RunFolder

ENV = "CartPole-v1"
OWN = ("--set", "algo.n_step=4", "--set", "replay.samples_per_insert=8")


@pytest.mark.parametrize("listen", ["udp://127.0.0.1:0", "dpdk:local:joining"])
def test_an_actor_and_a_learner_know_the_run_from_its_server(tmp_path: Path, listen: str) -> None:
    serving = ("serve", "--listen", listen, "--json")
    with command(tmp_path, *serving) as server_of_run:
        line = server_of_run.wait_for("ready|cannot|missing")
        if "ready" not in line:
            pytest.skip(f"no DPDK here: {line}")
        address = line.split('"addresses": ["')[1].split('"')[0]
        at = ("--server", address)
        with command(tmp_path, "actor", *at) as playing:  # it comes first, and waits
            playing.wait_for("waiting for a learner to tell")
            budget = ("--max-learner-steps", "300", "--set", f"run.folder={tmp_path / 'first'}")
            finished(tmp_path, "learn", ENV, *at, *SMALL, *OWN, *budget, "--json")
            assert f"joining the run at {address}: {ENV} with dqn" in playing.text() or (
                playing.wait_for("joining the run")
            )
            told = finished(tmp_path, "stats", *at, "--json").last_json()
            assert (told["run.name"], told["run.env"], told["run.algo"]) == ("first", ENV, "dqn")
            assert "first" in finished(tmp_path, "stats", *at, "--once").text()
            finished(
                tmp_path, "learn", *at, "--max-learner-steps", "200", "--json",
                "--set", f"run.folder={tmp_path / 'second'}",
            )  # fmt: skip
            assert playing.end(signal.SIGTERM) == 143, playing.text()
        one, other = (RunFolder(tmp_path / name).read_config() for name in ("first", "second"))
        assert (one.algo, one.replay, one.net) == (other.algo, other.replay, other.net)
        assert other.run.max_learner_steps == 200


def playing_actors(folder: Path, run: Path) -> int:
    """How many actors' reports the run's server has."""
    with command(folder, "stats", str(run), "--json") as asking:
        asking.end()  # with an error before there is a server
        told = asking.last_json()
    return sum(key.startswith("client.actor") and key.endswith(".env_steps") for key in told)


def wait_for_actors(running: Command, folder: Path, run: Path, count: int) -> None:
    deadline = time.monotonic() + 2 * DEADLINE_S
    while playing_actors(folder, run) < count:
        assert time.monotonic() < deadline, running.text()
        running.read(0.2)


def test_launch_adds_actors_to_a_run_until_it_ends(tmp_path: Path) -> None:
    run = tmp_path / "run"
    begun = ("run", ENV, *SMALL, "--num-actors", "1", "--set", f"run.folder={run}")
    with command(tmp_path, *begun) as running:
        wait_for_actors(running, tmp_path, run, 1)
        join = ("launch", "--join", str(run), "--json")
        wrong = finished(
            tmp_path, *join, "--set", "replay.batch_size=7", error=errors.TableMismatch
        )
        wrong = finished(tmp_path, "launch", ENV, *join[1:], error=errors.ConfigError)
        assert "the run says what it plays" in wrong.text()
        printed = finished(tmp_path, *join, "--num-actors", "2", "--print")
        plan = printed.last_json()
        assert "--num-actors 2" in plan["script"] and "udp://" in plan["script"]
        assert [(role["name"], role["count"]) for role in plan["roles"]] == [("actor", 2)]
        with command(tmp_path, *join, "--num-actors", "2") as joining:
            joining.wait_for("2 actors join the run")
            wait_for_actors(joining, tmp_path, run, 3)
            assert running.end(signal.SIGINT) == 130, running.text()
            assert joining.end() == 0, joining.text()
            assert "the run has ended" in joining.text()
    over = finished(tmp_path, *join, error=errors.RunFolderError)
    assert "has ended" in over.text()


def test_what_contradicts_the_run_is_told(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        at = ("--server", address)
        with command(tmp_path, "learn", ENV, *at, *SMALL, *OWN) as learning:
            learning.wait_for("waiting for actors")
            ended = finished(
                tmp_path, "actor", *at, "--set", "algo.n_step=1", error=errors.TableMismatch
            )
            first, second = lines_of_error(ended)
            assert f"algo.n_step: 1 here (--set), 4 in the run at {address}" in first
            assert "leave it out" in second
            # One that names the environment, and so the recipe, meets it at the table.
            ended = finished(tmp_path, "actor", ENV, *at, error=errors.TableMismatch)
            assert f"in the run at {address}" in lines_of_error(ended)[-2]
            assert "leave ENV and its settings out" in lines_of_error(ended)[-1]
            learning.end(signal.SIGTERM)


def test_an_actor_of_no_run_is_stopped_at_once(tmp_path: Path) -> None:
    with server(tmp_path) as address, command(tmp_path, "actor", "--server", address) as playing:
        playing.wait_for("waiting for a learner to tell")
        assert playing.end(signal.SIGINT) == 130, playing.text()
