"""A server of two shards on two hosts, which are network namespaces joined by veth."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from system.command import (
    DEADLINE_S,
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
from system.joined import run_in, within

from drlnet import errors
from drlnet.bench.netns import Side, joined
from drlnet.config.keys import make_keys
from drlnet.errors import TransportError
from drlnet.metrics import RunFolder

ENV = "CartPole-v1"


@pytest.fixture
def hosts() -> Iterator[tuple[Side, Side]]:
    """Two hosts whose kernels have the addresses of these sides."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces take root")
    with ExitStack() as stack:
        try:
            sides = stack.enter_context(joined(1500))
        except TransportError as error:
            pytest.skip(str(error))
        for side in sides:
            added = run_in(side, "ip", "address", "add", f"{side.ip}/24", "dev", side.interface)
            assert added.returncode == 0, added.stderr
        yield sides


def kill_all(started: Command) -> None:
    """Kills it and what it has started at once, as a host goes."""
    pids = [started.popen.pid, *descendants(started.popen.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert all_ended(pids)


def waiting_for(running: Command, deadline_s: float = 2 * DEADLINE_S) -> Iterator[None]:
    """Turns of a loop that reads what it says, until the deadline."""
    deadline = time.monotonic() + deadline_s
    while True:
        assert time.monotonic() < deadline, running.text()
        running.read(0.2)
        yield


def test_training_goes_on_when_a_host_goes(tmp_path: Path, hosts: tuple[Side, Side]) -> None:
    here, there = hosts
    home = f"udp://{here.ip}:7447"
    serve = ("serve", "--insecure", "--json")
    at = ("--server", home, "--json", "--set", "actor.envs_per_actor=4")
    run = RunFolder(tmp_path / "run")
    learn = ("learn", ENV, *at, *SMALL, "--set", f"run.folder={run.path}")
    with ExitStack() as stack:

        def start(side: Side, *words: str) -> Command:
            return stack.enter_context(command(tmp_path, *words, within=within(side)))

        server = start(here, *serve, "--listen", home, "--set", "server.elsewhere=1")
        server.wait_for("ready")
        shard = start(there, *serve, "--join", home, "--listen", f"udp://{there.ip}:0")
        address = json.loads(shard.wait_for("ready"))["addresses"][0]
        learner = start(here, *learn, "--max-learner-steps", "100000")
        learner.wait_for("waiting for actors")
        stats = ("stats", "--server", home, "--json")
        actors = []
        for side in hosts:
            # One after the other, and so each has two streams at each shard.
            actors.append(start(side, "actor", *at))
            for _ in waiting_for(learner):
                told = json.loads(run_drlnet(tmp_path, there, *stats))
                leased = told.get("table.replay.streams_leased")
                if leased == 4 * len(actors) and told["table.replay.items_drawn"]:
                    break
        assert told["table.replay.capacity"] == 5000
        learned_since(learner, run, time.time())

        kill_all(shard)
        kill_all(actors[1])
        lost = json.loads(server.wait_for("shard_lost"))
        assert (lost["shard"], lost["address"]) == (1, address)
        actors[0].wait_for(f"shard 1 at {address} is lost")
        learned_since(learner, run, time.time())
        before = json.loads(run_drlnet(tmp_path, here, *stats))
        assert before["server.shards_lost"] == 1
        assert before["table.replay.capacity"] == 2500
        # All four streams of the actor that is left are at the shard that is, beside two of the
        # other one, whose session is not over yet or whose streams could be resumed.
        for _ in waiting_for(learner):
            told = json.loads(run_drlnet(tmp_path, here, *stats))
            drawn = told["table.replay.items_drawn"] - before["table.replay.items_drawn"]
            stored = told["table.replay.items_created"] - before["table.replay.items_created"]
            if told["table.replay.streams_leased"] == 6 and drawn > 1000 and stored > 1000:
                break
        assert learner.end(signal.SIGTERM) == 143, learner.text()
        assert learner.last_json()["learner_steps"] > 0
        again = start(there, *serve, "--join", home, "--listen", f"udp://{there.ip}:0")
        assert again.end() == errors.ConfigError.exit_code, again.text()
        assert "no place for 1 more shards" in again.text()
        assert server.end(signal.SIGTERM) == 0, server.text()


def run_drlnet(folder: Path, side: Side, *words: str) -> str:
    """The last line of a command's standard output."""
    with command(folder, *words, within=within(side)) as asking:
        assert asking.end() == 0, asking.text()
        return asking.out.decode().splitlines()[-1]


def test_a_run_with_a_shard_of_its_own_process(tmp_path: Path) -> None:
    """As `launch` starts it, on one host, with keys: its plan has a line for the shard."""
    make_keys(tmp_path / "keys")
    run = ("run", ENV, *SMALL, "--set", "server.elsewhere=1", "--num-actors", "2", "--key", "keys")
    printed = finished(tmp_path, *run, "--print")
    assert [line.split()[:2] for line in lines_of_error(printed)[1:3]] == [
        ["server", "1"],
        ["shard", "1"],
    ]
    budget = ("--max-learner-steps", "300", "--set", f"run.folder={tmp_path / 'run'}", "--json")
    ran = finished(tmp_path, *run, *budget, deadline_s=3 * DEADLINE_S)
    assert ran.last_json()["learner_steps"] == 300 and not ran.last_json()["failures"]
    readings = RunFolder(tmp_path / "run").readings()
    served = [one for one in readings if one["role"] == "server"][-1]
    assert served["table.replay.capacity"] == 5000


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--join", "udp://127.0.0.1:1"], errors.TransportError, "udp://127.0.0.1:1"),
        (["--listen", "udp://0.0.0.0:0", "--insecure"], errors.ConfigError, "told this address"),
    ],
)
def test_what_cannot_join(
    tmp_path: Path, words: list[str], code: type[errors.DrlnetError], said: str
) -> None:
    with server(tmp_path, "--set", "server.elsewhere=1") as address:
        joins = [] if "--join" in words else ["--join", address]
        wrong = finished(tmp_path, "serve", "--json", *joins, *words, error=code)
        assert said in wrong.text()


def test_a_server_that_waits_for_none(tmp_path: Path) -> None:
    with server(tmp_path) as address:
        join = ("--join", address, "--listen", "udp://127.0.0.1:0")
        wrong = finished(tmp_path, "serve", *join, error=errors.ConfigError)
        assert "server.elsewhere=N" in wrong.text()
