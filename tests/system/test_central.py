"""Central inference with the real commands: a run over each transport, and roles that go."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from system.command import (
    DEADLINE_S,
    SMALL,
    command,
    finished,
    lines_of_error,
    server,
    serving,
)
from system.local_link import meeting_place

from drlnet import Client, errors
from drlnet.metrics import RunFolder

__all__ = ["meeting_place"]

ENV = "CartPole-v1"
CENTRAL = ("--set", "policy.where=central")
TWO = ("--set", "actor.num_actors=2", "--set", "actor.envs_per_actor=2")


def reading(address: str) -> dict[str, Any]:
    with Client(address, name="test") as client:
        return dict(client.stats())


@pytest.mark.parametrize("where", ["central", "learner"])
def test_a_run_over_udp(tmp_path: Path, where: str) -> None:
    budget = ("--max-learner-steps", "200", *TWO, "--set", f"policy.where={where}")
    ended = finished(tmp_path, "run", ENV, "--json", *budget, *SMALL)
    assert ended.last_json()["learner_steps"] >= 200
    run = RunFolder(Path(ended.last_json()["run_dir"]))
    *_, last = run.readings()
    assert last["inference.batches"] > 0
    assert last["client.infer.role"] == "infer" and "client.infer.stage.policy_s" in last
    own = (run.path / "infer.log").exists()
    assert own == (where == "central")  # else it is a thread


@pytest.mark.parametrize(
    "transport", ["dpdk:local", pytest.param("dpdk:memif", marks=pytest.mark.exhaustive)]
)
def test_a_run_past_the_kernel(tmp_path: Path, meeting_place: Path, transport: str) -> None:
    budget = ("--max-learner-steps", "200", *TWO, "--transport", transport)
    ended = finished(tmp_path, "run", ENV, *CENTRAL, "--json", *budget, *SMALL)
    assert ended.last_json()["learner_steps"] >= 200


@pytest.mark.parametrize("algo", ["pqn", "vtrace", "r2d2"])
@pytest.mark.exhaustive
def test_a_run_of_each_algorithm(tmp_path: Path, algo: str) -> None:
    few = ("--set", "replay.min_size=50", "--set", "run.goal=none", "--max-learner-steps", "30")
    ended = finished(
        tmp_path, "run", ENV, *CENTRAL, "--algo", algo, "--json", "--num-actors", "2", *few
    )
    assert ended.last_json()["learner_steps"] >= 30


@pytest.mark.parametrize("transport", ["udp", "dpdk:local"])
@pytest.mark.exhaustive
def test_cartpole_is_learned(tmp_path: Path, meeting_place: Path, transport: str) -> None:
    run = ("run", ENV, *CENTRAL, "--json", "--transport", transport, "--max-seconds", "240")
    ended = finished(tmp_path, *run, "--seed", "1", deadline_s=300)
    assert ended.last_json()["eval_return_mean"] >= 475


def test_actors_that_stop_or_die(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        at = ("--server", address, *CENTRAL, *SMALL, *TWO)
        alone = (*at, "--set", "actor.num_actors=1")
        with (
            command(tmp_path, "learn", ENV, *at),
            command(tmp_path, "infer", ENV, *at),
            command(tmp_path, "actor", ENV, *alone, "--index", "0") as first,
            command(tmp_path, "actor", ENV, *alone, "--index", "1") as second,
        ):
            wait_until(address, lambda r: steps(r, 0) > 0 and steps(r, 1) > 0)
            first.popen.send_signal(signal.SIGSTOP)
            before = steps(reading(address), 1)
            wait_until(address, lambda r: steps(r, 1) > before + 500)
            stats = wait_until(address, lambda r: r["inference.straggler_s"] > 0.5)
            assert stats["table.replay.streams_leased"] == 4
            first.popen.send_signal(signal.SIGCONT)
            before = steps(reading(address), 0)
            wait_until(address, lambda r: steps(r, 0) > before)
            first.end(signal.SIGKILL)
            with command(tmp_path, "actor", ENV, *alone, "--index", "0"):  # it takes that place
                stats = wait_until(address, lambda r: "client.actor-0~2.env_steps" in r)
                # The streams of the one that was killed are given back, and its place is taken.
                assert stats["table.replay.streams_leased"] == 4
                wait_until(address, lambda r: r["client.infer.actors"] == 2)
            assert second.end(signal.SIGINT) == 130, second.text()


def test_a_stopped_actor_does_not_stall_another(tmp_path: Path) -> None:
    """In turns, so that whatever else the machine does meets both."""
    with server(tmp_path) as address:
        at = ("--server", address, *CENTRAL, *SMALL, *TWO)
        alone = (*at, "--set", "actor.num_actors=1")
        taken_s = {True: 0.0, False: 0.0}
        with (
            command(tmp_path, "learn", ENV, *at),
            command(tmp_path, "infer", ENV, *at),
            command(tmp_path, "actor", ENV, *alone, "--index", "0") as first,
            command(tmp_path, "actor", ENV, *alone, "--index", "1"),
        ):
            wait_until(address, lambda r: steps(r, 0) > 0 and steps(r, 1) > 0)
            for _ in range(3):
                for stopped in (False, True):
                    first.popen.send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)
                    begun = steps(reading(address), 1)
                    begun_s = time.monotonic()
                    wait_until(address, lambda r, end=begun + 2000: steps(r, 1) >= end)
                    taken_s[stopped] += time.monotonic() - begun_s
        # It has the other one's core besides; but for that, nothing may have changed for it.
        assert taken_s[True] <= 2 * taken_s[False], taken_s


@pytest.mark.exhaustive
def test_a_killed_actor_frees_its_state(tmp_path: Path) -> None:
    """The server ends sessions that were silent for a minute, and tells the role."""
    with server(tmp_path) as address:
        at = ("--server", address, *CENTRAL, *SMALL, *TWO)
        alone = (*at, "--set", "actor.num_actors=1")
        with (
            command(tmp_path, "learn", ENV, *at),
            command(tmp_path, "infer", ENV, *at),
            command(tmp_path, "actor", ENV, *alone, "--index", "0") as first,
            command(tmp_path, "actor", ENV, *alone, "--index", "1"),
        ):
            wait_until(address, lambda r: steps(r, 0) > 0 and steps(r, 1) > 0)
            first.end(signal.SIGKILL)
            wait_until(address, lambda r: r["table.replay.streams_leased"] == 2, 180)
            wait_until(address, lambda r: r["client.infer.actors"] == 1)


def steps(stats: dict[str, Any], actor: int) -> int:
    return int(stats.get(f"client.actor-{actor}.env_steps", 0))


def wait_until(
    address: str, holds: Callable[[dict[str, Any]], bool], deadline_s: float = DEADLINE_S
) -> dict[str, Any]:
    """The first reading of which that holds."""
    deadline = time.monotonic() + deadline_s
    with Client(address, name="test") as client:
        while not holds(found := dict(client.stats())):
            assert time.monotonic() < deadline, found
            threading.Event().wait(0.05)  # what is watched needs the cores
    return found


def test_an_inference_role_that_dies_and_comes_back(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        at = ("--server", address, *CENTRAL, *SMALL, *TWO)
        with (
            command(tmp_path, "learn", ENV, *at),
            command(tmp_path, "actor", ENV, *at) as actors,
        ):
            with command(tmp_path, "infer", ENV, *at) as role:
                wait_until(address, lambda r: steps(r, 0) > 0)
                role.end(signal.SIGKILL)
            with command(tmp_path, "infer", ENV, *at) as role:
                wait_until(address, lambda r: "client.infer~2.questions_per_s" in r)
                before = steps(reading(address), 0)
                wait_until(address, lambda r: steps(r, 0) > before)
                role.end(signal.SIGKILL)
            assert actors.end() == errors.ReplayTimeout.exit_code, actors.text()
            *_, cause, remedy = lines_of_error(actors)
            assert "the inference role at this server has fallen silent" in cause
            assert "start `drlnet infer`" in remedy


def test_one_inference_role_at_a_time(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        at = ("--server", address, *CENTRAL, *SMALL, *TWO)
        with command(tmp_path, "learn", ENV, *at), command(tmp_path, "infer", ENV, *at) as first:
            wait_until(address, lambda r: "client.infer.questions_per_s" in r)
            with command(tmp_path, "infer", ENV, *at) as second:
                assert first.end() == errors.ConfigError.exit_code, first.text()
                assert "run one `drlnet infer`" in lines_of_error(first)[-1]
                assert second.end(signal.SIGTERM) == 143, second.text()


def test_the_learner_acts_for_a_queue_whose_limiter_holds(tmp_path: Path) -> None:
    """As it ends it draws no more, and what its thread appends is held."""
    sets = ("--set", "policy.where=learner", "--set", "run.goal=none", "--num-actors", "2")
    ended = finished(tmp_path, "run", ENV, "--algo", "vtrace", "--json", *sets,
                     "--max-learner-steps", "50")  # fmt: skip
    assert ended.last_json()["learner_steps"] == 50


def test_the_learner_ends_with_the_thread_that_acts(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        at = ("--server", address, *SMALL, *TWO)
        own = ("--set", "policy.where=learner")
        refused = finished(tmp_path, "infer", ENV, *at, *own, error=errors.ConfigError)
        assert "the learner's process acts" in lines_of_error(refused)[-2]
        with (
            command(tmp_path, "learn", ENV, *at, *own) as learner,
            command(tmp_path, "actor", ENV, *at, *own),
        ):
            wait_until(address, lambda r: steps(r, 0) > 0)
            # Another role takes over, which the thread is told.
            with command(tmp_path, "infer", ENV, *at, *CENTRAL):
                assert learner.end() == errors.ConfigError.exit_code, learner.text()
                assert "run one `drlnet infer`" in lines_of_error(learner)[-1]


@pytest.mark.parametrize("where", ["central", "learner"])
def test_central_and_serial(tmp_path: Path, where: str) -> None:
    set_ = ("--set", f"policy.where={where}")
    ended = finished(
        tmp_path, "run", ENV, *set_, "--serial", "--max-env-steps", "5000", error=errors.ConfigError
    )
    assert len(lines_of_error(ended)) == 2


def test_a_learner_that_acts_ends_while_its_server_is_silent(tmp_path: Path) -> None:
    """An append of its own would wait a minute for the server."""
    acting = ("--set", "policy.where=learner", *SMALL, *TWO)
    with (
        serving(tmp_path) as (started, address),
        command(tmp_path, "learn", ENV, "--server", address, *acting) as learning,
        command(tmp_path, "actor", ENV, "--server", address, *acting),
    ):
        learning.wait_for("learner_steps [1-9]", deadline_s=120)
        started.popen.send_signal(signal.SIGSTOP)
        assert learning.end(signal.SIGINT, deadline_s=40) == 130, learning.text()
        assert "the checkpoint is in" in learning.text()
