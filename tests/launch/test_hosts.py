"""Roles on hosts, with agents of this machine in the place of those behind ssh or Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from drlnet.config.keys import key_text, make_keys
from drlnet.errors import Insecure, RoleFailed
from drlnet.launch.hosts import Far, Host, Hosts
from drlnet.launch.plan import Plan, Role
from drlnet.launch.process import DRLNET, Process
from drlnet.launch.signals import Stop
from drlnet.launch.supervisor import Ended, Event, Said, Supervisor

pytestmark = pytest.mark.slow

DEADLINE_S = 60.0


@contextmanager
def hosts(
    folder: Path,
    notes: list[str],
    address: str = "127.0.0.1",
    plan: Plan | None = None,
    **takes: Sequence[str],
) -> Iterator[tuple[Hosts, dict[str, Process]]]:
    """Two hosts, one and two; takes: kinds of roles by the host's name."""
    started: dict[str, Process] = {}

    def links(group: Supervisor) -> list[Process]:
        for name in ("two", "one"):
            kinds = [word for kind in takes.get(name, ()) for word in ("--takes", kind)]
            args = ["agent", name, "--address", address, *kinds]
            started[name] = group.start(f"host-{name}", args, program=DRLNET, told=True)
        return [*started.values()]

    with (
        Stop() as stop,
        Hosts(stop, links, ["one", "two"], folder, notes.append, plan=plan) as group,
    ):
        yield group, started


def until(group: Hosts, found: Callable[[Event | None], bool]) -> Event | None:
    for _ in range(int(DEADLINE_S * 10)):
        for event in [*group.wait(0.1), None]:
            if found(event):
                return event
    raise AssertionError("it did not happen")


def test_what_a_role_says_and_how_it_ends_come_from_its_host(tmp_path: Path) -> None:
    with hosts(tmp_path, []) as (group, _):
        server = group.start("server", ["serve", "--listen", "udp://{host}:0", "--json"])
        ready = group.wait_for_line(server, "ready", DEADLINE_S)
        assert ready["addresses"][0].startswith("udp://127.0.0.1:")
        assert server.host is not None and server.host.name == "one"  # the first that was named
        actor = group.start("actor-0", ["version", "--json"])
        assert actor.host is not None and actor.host.name == "two"  # where less runs
        said = until(group, lambda event: isinstance(event, Said) and event.process is actor)
        assert isinstance(said, Said) and "version" in said.values
        ended = until(group, lambda event: isinstance(event, Ended))
        assert isinstance(ended, Ended) and (ended.process, ended.returncode) == (actor, 0)
        assert "drlnet " in (tmp_path / "actor-0.log").read_text()
        (tmp_path / "actor-2.log").symlink_to("/dev/full")  # a disk here that is
        unlogged = group.start("actor-2", ["version", "--json"])
        until(group, lambda event: isinstance(event, Ended) and event.process is unlogged)
        assert unlogged.returncode == 0
        wrong = group.start("actor-1", ["serve", "--listen", "nonsense", "--json"])
        until(group, lambda event: isinstance(event, Ended) and event.process is wrong)
        assert "nonsense" in wrong.failure().cause and wrong.failure().remedy
        group.end([server])
        assert server.returncode == 0 and server.stopping


@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        *[("127.0.0.1", True), ("localhost", True), ("10.0.0.1", False)],
        *[("::1", True), ("[::1]", True), ("2001:db8::5", False)],
    ],
)
def test_a_host_may_say_its_address_by_name_and_in_ipv6(address: str, loopback: bool) -> None:
    host = Host("one", Mock(spec=Process), address, 1, {}, ())
    assert host.is_loopback is loopback


def test_a_server_listens_where_ssh_came_over_ipv6(tmp_path: Path) -> None:
    with hosts(tmp_path, [], address="::1") as (group, _):
        server = group.start("server", ["serve", "--listen", "udp://{host}:0", "--json"])
        ready = group.wait_for_line(server, "ready", DEADLINE_S)
        assert ready["addresses"][0].startswith("udp://[::1]:")


def test_a_server_without_keys_that_others_reach_is_refused(tmp_path: Path) -> None:
    with (
        hosts(tmp_path, [], address="10.9.9.9") as (group, _),
        pytest.raises(Insecure, match=r"server on one, at 10\.9\.9\.9, can be reached") as refused,
    ):
        group.start("server", ["serve", "--listen", "udp://{host}:0", "--json"])
    assert "--key DIR" in refused.value.remedy and "--insecure" in refused.value.remedy


def test_a_plan_that_takes_more_cores_than_the_hosts_have_is_told(tmp_path: Path) -> None:
    cores = len(os.sched_getaffinity(0))

    def role(name: str, count: int) -> Role:
        return Role(name, count, 1, 0, 0, False, ("version",))

    for near, far, told in (
        (1, 2 * cores - 1, []),
        (1, 2 * cores, [f"the plan takes {2 * cores + 1} cores (learner 1, actor {2 * cores}); "]),
        (cores + 1, 1, [f"the plan takes {cores + 1} cores (learner {cores + 1}); one, the first"]),
    ):
        notes: list[str] = []
        plan = Plan("CartPole-v1", "", (role("learner", near), role("actor", far)))
        with hosts(tmp_path, notes, plan=plan):
            short = [note for note in notes if note.startswith("the plan takes")]
            assert len(short) >= len(told) and all(map(str.startswith, short, told)), notes
            assert bool(short) == bool(told)


def test_a_lost_host_loses_its_roles_and_may_come_back(tmp_path: Path) -> None:
    notes: list[str] = []
    with hosts(tmp_path, notes) as (group, links):
        server = group.start("server", ["serve", "--listen", "udp://{host}:0", "--json"])
        group.wait_for_line(server, "ready", DEADLINE_S)
        os.kill(links["one"].pid, signal.SIGKILL)
        ended = until(group, lambda event: isinstance(event, Ended))
        assert isinstance(ended, Ended) and ended.process is server
        assert server.lost and server.ending == "was lost with one"
        assert isinstance(server.failure(), RoleFailed)
        again = group.start("server", ["serve", "--listen", "udp://{host}:0", "--json"])
        assert again.host is not None and again.host.name == "two"
        group.wait_for_line(again, "ready", DEADLINE_S)
        # The connection is tried again, and the host takes roles once more.
        until(group, lambda _: len([note for note in notes if "host one is there" in note]) == 2)
        third = group.start("learner", ["version", "--json"])
        assert third.host is not None and third.host.name == "one"
    assert any("host one is lost" in note for note in notes)


def test_a_role_that_no_host_takes_waits_and_ends_with_the_rest(tmp_path: Path) -> None:
    notes: list[str] = []
    with hosts(tmp_path, notes, one=["server"], two=["server"]) as (group, _):
        actor: Far = group.start("actor-0", ["version", "--json"])
        assert actor.host is None and "actor-0 waits for a host" in notes
    assert actor.returncode == 0 and actor.ending == "was never started"


@pytest.mark.parametrize("serves", [True, False])
def test_roles_keep_the_keys_that_the_server_beside_them_began_with(
    tmp_path: Path, serves: bool
) -> None:
    folder, told = tmp_path / "keys", tmp_path / "told"
    make_keys(folder)
    names = ["server", "learner", "actor-0", "server"] if serves else ["actor-0", "actor-0"]
    up = {"up": "one", "host": "one", "address": "::1", "cores": 1, "interfaces": {}, "takes": []}
    agent = f"echo '{json.dumps(up)}'; head -n {len(names)} >{told}"  # then its host is lost

    def links(group: Supervisor) -> list[Process]:
        return [group.start("host-one", [agent], program=("sh", "-c"), told=True)]

    expected = []
    with Stop() as stop, Hosts(stop, links, ["one"], tmp_path, [].append) as group:
        for name in names:
            if not (serves and expected):
                owners = {one: key_text(folder, one) for one in ("server", "learner", "actor")}
            expected.append(owners[name.partition("-")[0]])
            group.start(name, ["serve", "--key", str(folder)])
            make_keys(folder, rotate=True)
        until(group, lambda event: isinstance(event, Ended))
    assert [json.loads(line)["key"] for line in told.read_text().splitlines()] == expected


_SAVING = """
import signal, sys, time
from pathlib import Path

def end(*_):
    print("ending", file=sys.stderr, flush=True)
    time.sleep(0.5)  # as a learner that keeps its state
    Path(sys.argv[1]).touch()
    sys.exit()

signal.signal(signal.SIGTERM, end)
print("ready", file=sys.stderr, flush=True)
signal.pause()
"""
_AGENT = """
import functools, sys
from drlnet.launch import agent
from drlnet.launch.signals import Stop

agent.Supervisor = functools.partial(agent.Supervisor, program=[sys.executable, "-c", sys.argv[1]])
with Stop() as stop:
    agent.serve_agent("one", "127.0.0.1", [], stop)
"""


def test_an_agent_that_is_cut_off_gives_its_roles_the_time_to_save(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _AGENT, _SAVING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as agent:
        assert agent.stdin is not None and agent.stdout is not None
        told = {"start": 0, "name": "learner", "argv": [str(tmp_path / "saved")]}
        print(json.dumps(told), file=agent.stdin, flush=True)
        assert any('"ready"' in line for line in agent.stdout)
        agent.stdout.close()
        agent.stdin.close()
        assert agent.wait(DEADLINE_S) == 0
    assert (tmp_path / "saved").exists()
