"""Server, learner and actors started by hand: what they wait for, and what they say."""

from __future__ import annotations

import signal
from pathlib import Path

from system.command import SMALL, command, finished, lines_of_error, server

from drlnet import errors

ENV = "CartPole-v1"


def test_four_commands_by_hand_and_an_actor_that_comes_and_goes(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        at = ("--server", address)
        budget = ("--max-learner-steps", "6000")
        with (
            # Another seed than the actors': it is nothing that they must agree on.
            command(
                tmp_path, "learn", ENV, *at, *SMALL, *budget, "--json", "--seed", "9"
            ) as learning,
            command(tmp_path, "actor", ENV, *at, *SMALL) as playing,
        ):
            learning.wait_for("learner_steps [1-9]")
            with command(tmp_path, "actor", ENV, *at, *SMALL, "--num-actors", "2") as joining:
                joining.wait_for("2 actors play")
                reading = finished(tmp_path, "stats", *at, "--json").last_json()
                assert any(key.startswith("client.actor-0") for key in reading)
                assert joining.end(signal.SIGTERM) == 143, joining.text()
            assert learning.end() == 0, learning.text()
            assert learning.last_json().keys() >= {"eval_return_mean", "run_dir"}
            assert playing.end(signal.SIGINT) == 130, playing.text()


def test_actors_wait_for_another_learner_when_theirs_has_ended(tmp_path: Path) -> None:
    limited = (*SMALL, "--set", "replay.samples_per_insert=8")
    with server(tmp_path) as address:
        at = ("--server", address)
        learn = ("learn", ENV, *at, *limited, "--json", "--max-learner-steps", "100")
        with (
            command(tmp_path, "actor", ENV, *at, *limited) as playing,
            command(
                tmp_path, "actor", ENV, *at, *limited, "--set", "actor.max_wait_s=3"
            ) as impatient,
        ):
            finished(tmp_path, *learn)
            assert impatient.end() == errors.ReplayTimeout.exit_code, impatient.text()
            first, second = lines_of_error(impatient)
            assert "no learner has drawn for 3" in first
            assert f"try: start `drlnet learn {ENV} --server {address}`" in second
            playing.wait_for("no learner has drawn for")
            finished(tmp_path, *learn)  # its rows come from there
            assert playing.end(signal.SIGTERM) == 143, playing.text()
            assert playing.text().count("no learner has drawn") == 1


def test_one_learner_publishes_until_another_takes_over(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        at = ("--server", address)
        learn = ("learn", ENV, *at, *SMALL)
        with command(tmp_path, "actor", ENV, *at, *SMALL), command(tmp_path, *learn) as first:
            first.wait_for("learner_steps [1-9]")
            second = finished(tmp_path, *learn, error=errors.AnotherPublisher)
            *_, cause, remedy = lines_of_error(second)
            assert "error: the client 'learner' publishes params at this server" in cause
            assert "drlnet learn --takeover" in remedy
            (folder,) = (tmp_path / "runs").iterdir()  # the second one's is taken back

            with command(tmp_path, *learn, "--takeover") as third:
                assert first.end() == errors.AnotherPublisher.exit_code, first.text()
                assert "what was learned is in" in first.text()
                third.wait_for("learner_steps [1-9]")
                assert third.end(signal.SIGINT) == 130, third.text()
    assert (folder / "learner.safetensors").exists()


def test_a_learner_that_was_killed_has_a_successor_at_once(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        learn = ("learn", ENV, "--server", address, *SMALL)
        with command(tmp_path, *learn) as first:
            first.wait_for("waiting for actors")
            first.end(signal.SIGKILL)
        with command(tmp_path, *learn) as second:
            second.wait_for("waiting for actors")
            finished(tmp_path, *learn, error=errors.AnotherPublisher)
            assert second.end(signal.SIGINT) == 130, second.text()


def test_a_learner_says_what_it_waits_for(tmp_path: Path) -> None:
    """So many items are wanted that the replay fills for minutes."""
    few = (*SMALL, "--set", "replay.min_size=2000000", "--set", "replay.capacity=2100000")
    with server(tmp_path) as address:
        at = ("--server", address)
        with command(tmp_path, "learn", ENV, *at, *few) as learning:
            words = learning.wait_for("waiting for actors")
            assert f"start one: drlnet actor {ENV} --server {address}" in words
            with command(tmp_path, "actor", ENV, *at, *few):
                learning.wait_for(r"filling the replay [\d,]+ of 2,000,000")
            assert learning.end(signal.SIGINT) == 130, learning.text()
            assert "training" not in learning.text() and "the checkpoint is" not in learning.text()
            assert "interrupted before the first learner step" in learning.text()
    assert not list(tmp_path.glob("runs/*/checkpoint.safetensors"))


def test_a_table_of_other_columns(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        at = ("--server", address)
        with command(tmp_path, "learn", ENV, *at, *SMALL) as learning:
            learning.wait_for("waiting for actors")
            ended = finished(
                tmp_path, "actor", "Acrobot-v1", *at, *SMALL, error=errors.TableMismatch
            )
            assert "obs" in ended.err.decode()
            learning.end(signal.SIGTERM)
