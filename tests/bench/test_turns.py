"""The benchmark of turns, small: that it measures what its records say."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from system.command import all_ended, command, descendants

from drlnet.bench.engine import Course
from drlnet.bench.machine import run_delay
from drlnet.bench.records import Record
from drlnet.bench.turns import ALONE, BESIDE, measure_turns
from drlnet.client import Client
from drlnet.launch.signals import Stop


def test_run_delay_counts_waiting_for_a_core() -> None:
    # Two threads that both want one core: each waits for about as long as the other runs.
    core = min(os.sched_getaffinity(0))
    delays: list[tuple[float, float]] = []

    def spin() -> None:
        os.sched_setaffinity(0, {core})
        with run_delay() as delay:
            before, began = delay(), time.monotonic()
            while time.monotonic() < began + 0.3:
                sum(range(1000))
            delays.append((delay() - before, 1e6 * (time.monotonic() - began)))

    # Processes, not threads of one interpreter, which its lock would already take in turns.
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, {core})
        while os.getppid() != 1:  # until it is killed, with the tests at the latest
            sum(range(1000))
        os._exit(0)
    thread = threading.Thread(target=spin)
    thread.start()
    thread.join()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (waited_us, whole_us) = delays[0]
    assert 0.1 * whole_us < waited_us < whole_us


def test_run_delay_of_a_process_that_is_gone() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    with pytest.raises(FileNotFoundError), run_delay(child):
        pass


def test_turns_records_each_ping_as_seen_and_on_a_core() -> None:
    with Stop() as stop:
        measured = measure_turns(Course(stop, 1), pings=200, polls=["block"])
    records = measured.records
    (looks,) = measured.distance.rounds  # none where other work had the cores
    assert {look.before for look in looks} <= {"udp, poll block"}
    found: dict[tuple[str, str], Record] = {(r.workload, r.op): r for r in records}
    assert set(found) == {(w, op) for w in (ALONE, BESIDE) for op in ("ping", "ping on a core")}
    for workload in (ALONE, BESIDE):
        seen, on_core = found[workload, "ping"], found[workload, "ping on a core"]
        # A ping beside others may have done nothing but wait.
        assert 0 <= on_core.p50_us <= seen.p50_us
        assert on_core.p99_us <= seen.p99_us
        assert seen.p50_us <= seen.p99_us


def test_ctrl_c_ends_a_round_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real, count = Client.ping, 0

    def ping(client: Client) -> float:
        nonlocal count
        count += 1
        if count == 150:  # in the middle of the second round
            os.kill(os.getpid(), signal.SIGINT)
        return real(client)

    monkeypatch.setattr(Client, "ping", ping)
    with Stop() as stop:
        measured = measure_turns(Course(stop, 1), pings=100, polls=["block", "busy"])
    assert count == 150
    assert measured.more["interrupted"]
    assert {(record.subject, record.workload) for record in measured.records} == {
        ("udp, poll block", ALONE)
    }


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    with command(tmp_path, "bench", "turns", "--json", "--rounds", "500") as running:
        while "worker" not in " ".join(descendants(running.popen.pid).values()):
            assert running.popen.poll() is None, running.text()
        below = list(descendants(running.popen.pid))
        assert running.end(signal.SIGINT) == 128 + signal.SIGINT, running.text()
    assert all_ended(below)
    said = running.last_json()
    assert said["interrupted"]
    assert ALONE in {record["workload"] for record in said["records"]}


def test_a_stop_before_anything_is_measured() -> None:
    with Stop() as stop:
        stop.set()
        measured = measure_turns(Course(stop, 1), pings=100)
    assert (measured.records, measured.more["interrupted"]) == ([], True)
