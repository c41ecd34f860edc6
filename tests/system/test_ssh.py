"""A run on two hosts that ssh reaches; both are this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.command import (
    SMALL,
    Command,
    all_ended,
    command,
    finished,
    learned_since,
    lines_of_error,
)
from system.sshd import Sshd, sshd
from system.test_joining import wait_for_actors

from drlnet import errors
from drlnet.config.keys import KEY_VARIABLE, make_keys
from drlnet.metrics import RunFolder

ENV = "CartPole-v1"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Sshd]:
    with sshd(tmp_path / "ssh") as found:
        yield found


def launch(there: Sshd, folder: Path, *more: str) -> tuple[str, ...]:
    where = ("--on", "ssh", "--hosts", str(there.hosts), "--ssh", there.ssh)
    own = ("--set", f"run.folder={folder / 'run'}", "--json")
    return ("launch", ENV, *where, *SMALL, *own, *more)


def roles(there: Sshd) -> dict[int, list[str]]:
    """The processes of this run, by id, with their words: told by a folder that all name."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_text().split("\0")
            environment = (entry / "environ").read_text() if entry.name.isdigit() else ""
        except OSError:
            continue
        if f"DRLNET_TEST={there.hosts}" in environment and "ssh" not in words[0]:
            found[int(entry.name)] = words
    return found


def started_roles(running: Command, there: Sshd, *names: str) -> dict[int, list[str]]:
    running.wait_for("learner_steps [1-9]", deadline_s=120)
    found = roles(there)
    words = {word for line in found.values() for word in line}
    assert words >= set(names), found
    return found


@pytest.fixture
def marked(there: Sshd) -> Sshd:
    """Hosts whose processes can be told from all others of this machine."""
    drlnet = there.hosts.read_text().split("drlnet=")[1].split()[0]
    marked = f"drlnet='env DRLNET_TEST={there.hosts} {drlnet}'"
    there.write_hosts(f"one {marked}", f"two {marked}")
    return there


def test_a_run_over_ssh_survives_crashes_and_a_lost_host(tmp_path: Path, marked: Sshd) -> None:
    kept = ("--set", "learner.save_period_s=0.5", "--set", "run.keep_replay=true")
    more = ("--num-actors", "2", *kept)
    with command(tmp_path, *launch(marked, tmp_path, *more)) as running:
        found = started_roles(running, marked, "serve", "learn", "actor", "agent")
        actor = next(pid for pid, words in found.items() if "actor" in words)
        os.kill(actor, signal.SIGKILL)
        running.wait_for("actor restarts 1")
        running.wait_for("learner_steps [1-9]")
        learner_state = tmp_path / "run" / "learner.safetensors"
        running.wait_for("learner_steps [1-9][0-9,]{3,}")
        assert learner_state.is_file()
        # The leader of its session: the evaluator is forked from it, and has the same words.
        learner = next(
            pid for pid, words in found.items() if "learn" in words and os.getsid(pid) == pid
        )
        os.kill(learner, signal.SIGKILL)
        running.wait_for("learner restarts 1", deadline_s=120)
        learned_since(running, RunFolder(tmp_path / "run"), time.time())
        server = next(pid for pid, words in found.items() if "serve" in words)
        os.kill(server, signal.SIGKILL)
        running.wait_for("server restarts 1", deadline_s=120)
        learned_since(running, RunFolder(tmp_path / "run"), time.time())
        agent = next(pid for pid, words in found.items() if "agent" in words and "two" in words)
        os.kill(agent, signal.SIGKILL)
        running.wait_for("host two is lost", deadline_s=60)
        running.wait_for("actor restarts [23]", deadline_s=120)
        assert running.end(signal.SIGINT, deadline_s=120) == 130, running.text()
        result = running.last_json()
        assert result["learner_restarts"] == 1 and result["actor_restarts"] >= 2
        assert result["server_restarts"] == 1
        assert any("learner was killed by SIGKILL" in failure for failure in result["failures"])
        assert any("was lost with two" in failure for failure in result["failures"])
    assert not roles(marked)


def test_a_run_outlives_its_shard_on_another_host(tmp_path: Path, marked: Sshd) -> None:
    more = ("--num-actors", "2", "--set", "server.elsewhere=1")
    with command(tmp_path, *launch(marked, tmp_path, *more)) as running:
        found = started_roles(running, marked, "--join", "learn", "actor")
        shard = next(pid for pid, words in found.items() if "--join" in words)
        os.kill(shard, signal.SIGKILL)
        running.wait_for("shards lost 1", deadline_s=60)
        learned_since(running, RunFolder(tmp_path / "run"), time.time())
        assert running.end(signal.SIGINT, deadline_s=120) == 130, running.text()
        failures = running.last_json()["failures"]
        assert any("shard-0 was killed by SIGKILL" in failure for failure in failures)
    assert not roles(marked)


def test_actors_join_from_other_hosts(
    tmp_path: Path, marked: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With keys, which the hosts need not have."""
    make_keys(tmp_path / "keys")
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "keys"))
    with command(tmp_path, *launch(marked, tmp_path)) as running:
        before = set(found := started_roles(running, marked, "actor"))
        words = {word for line in found.values() for word in line}
        assert "--key" in words and str(tmp_path / "keys") not in words
        where = ("--on", "ssh", "--hosts", str(marked.hosts), "--ssh", marked.ssh)
        join = ("launch", "--join", str(tmp_path / "run"), *where, "--num-actors", "2")
        with command(tmp_path, *join) as joining:
            wait_for_actors(joining, tmp_path, tmp_path / "run", 3)
            more = {pid: words for pid, words in roles(marked).items() if pid not in before}
            assert sum("actor" in words for words in more.values()) >= 2
            assert joining.end(signal.SIGINT, deadline_s=120) == 130, joining.text()
            assert all_ended([*more])
        folder = RunFolder(tmp_path / "run")
        learned_since(running, folder, time.time())
        running.end(signal.SIGINT, deadline_s=120)
        sealed = [reading.get("server.sealed") for reading in folder.readings()]
        assert 1 in sealed and 0 not in sealed
    assert not roles(marked)


def test_nothing_survives_a_launch_that_is_killed(tmp_path: Path, marked: Sshd) -> None:
    with command(tmp_path, *launch(marked, tmp_path)) as running:
        found = started_roles(running, marked, "serve", "learn", "actor")
        running.end(signal.SIGKILL)
    assert all_ended([*found])


def test_what_ssh_refuses_is_told(tmp_path: Path, there: Sshd) -> None:
    there.write_hosts("one drlnet=/nowhere/drlnet")
    ended = finished(tmp_path, *launch(there, tmp_path), error=errors.TransportError)
    cause, remedy = lines_of_error(ended)[-2:]
    assert "one has no drlnet" in cause and "drlnet=PATH" in remedy
    (tmp_path / "ssh" / "authorized").write_text("")
    ended = finished(tmp_path, *launch(there, tmp_path), error=errors.TransportError)
    cause, remedy = lines_of_error(ended)[-2:]
    assert "no connection to one: " in cause and "denied" in cause
    assert "ssh -o BatchMode=yes one true" in remedy
    assert not (tmp_path / "run").exists()


def test_a_server_that_no_other_host_reaches(tmp_path: Path, there: Sshd) -> None:
    first, second = there.hosts.read_text().splitlines()
    there.write_hosts(first.partition("#")[0], f"{second} address=10.9.9.9")
    ended = finished(tmp_path, *launch(there, tmp_path), error=errors.ConfigError)
    cause, remedy = lines_of_error(ended)[-2:]
    assert "at 127.0.0.1 of one, which two cannot reach" in cause and "lo 127.0.0.1" in cause
    assert "address=ADDRESS" in remedy


def test_hosts_files_are_checked(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    where = ("launch", ENV, "--on", "ssh", "--hosts", str(hosts))
    for text, words in (
        (None, "cannot read"),
        ("# none\n", "names no host"),
        ("one color=red\n", "hosts:1: color"),
    ):
        if text is not None:
            hosts.write_text(text)
        ended = finished(tmp_path, *where, error=errors.ConfigError)
        assert words in lines_of_error(ended)[0]


def test_settings_that_do_not_fit_start_nothing(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("nowhere.invalid\n")
    where = ("launch", ENV, "--on", "ssh", "--hosts", str(hosts))
    ended = finished(tmp_path, *where, "--algo", "tabular", error=errors.ConfigError)
    assert "tabular" in lines_of_error(ended)[0]
    assert not (tmp_path / "runs").exists()
