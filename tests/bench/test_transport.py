"""The benchmark of transports, small: what it measures, what it derives, what it refuses."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from system.command import PROGRAM, command, finished

from drlnet.bench.engine import COPY, Course, Effort, Results
from drlnet.bench.machine import Cores
from drlnet.bench.netns import joined, namespaces, over_veth
from drlnet.bench.records import Record, Records, Round, key_of
from drlnet.bench.show import plot_bars
from drlnet.bench.transport.measuring import BATCH, BATCH_BYTES, CELLS, measure_handovers
from drlnet.bench.transport.suite import (
    HANDOVER,
    OPS,
    Places,
    Subject,
    caption,
    measure_transports,
    reductions,
    sealed_too,
    show,
    subjects_of,
)
from drlnet.cli.bench.command import written
from drlnet.cli.output import Output, require_writable
from drlnet.config.transports import AF_XDP_MTU, LISTEN
from drlnet.errors import ConfigError, TransportError
from drlnet.launch.signals import Stop

TINY = Effort(calls=30, budget_s=0.05, warm_up=5)


def record(subject: str, p50_us: float, op: str = "ping", payload: str = "64 B") -> Record:
    rounds = (Round(1, p50_us, 2 * p50_us, p50_us),)
    return Record(
        "transport", subject, payload, op, p50_us, 2 * p50_us, 1e6 / p50_us, 1, by_round=rounds
    )


def test_records_hold_percentiles_and_rates() -> None:
    times = [float(us) for us in range(1, 1001)]
    made = Record.of("s", "a", "w", "o", {1: times, 3: times}, operation_bytes=10)
    assert made.p50_us == pytest.approx(500.5)
    assert made.p999_us == pytest.approx(np.percentile(times, 99.9))
    assert made.per_second == pytest.approx(1e6 / 500.5)
    assert made.bytes_per_second == pytest.approx(10 * made.per_second)
    assert made.by_round[1] == Round(3, 500.5, np.percentile(times, 99), 500.5)
    assert made.to_dict()["by_round"][0]["number"] == 1
    assert "bytes_per_second" not in Record.of("s", "a", "w", "o", {1: times}).to_dict()
    assert "by_round" not in Record("s", "a", "w", "o", 1.0, 1.0, 1.0, 1).to_dict()


def test_reductions() -> None:
    made = reductions([record("udp block", 60.0), record("udp busy", 4.0), record("new", 1.0)])
    assert [reduction.subject for reduction in made] == ["new"]
    assert made[0].than_block == pytest.approx(59 / 60)
    assert made[0].than_busy == pytest.approx(0.75)
    assert made[0].wake_up_share == pytest.approx(56 / 59)


def test_reductions_are_taken_within_rounds() -> None:
    def of(subject: str, *us: float) -> Record:
        return Record.of(
            "transport", subject, "64 B", "ping", {n: [t] for n, t in enumerate(us, 1)}
        )

    # In rounds 2 and 3 the cores are far apart, and all takes three times as long.
    (made,) = reductions(
        [of("udp block", 60, 180, 180), of("udp busy", 4, 12, 12), of("new", 2, 6, 6, 1)]
    )
    assert (made.than_busy, made.than_busy_of_rounds) == (0.5, (0.5, 0.5))
    assert made.than_block == pytest.approx(58 / 60)
    assert made.wake_up_share == pytest.approx(56 / 58)
    # What one subject saw of another state shows in the spread, not in the figure.
    (made,) = reductions([of("udp busy", 4, 4, 12), of("new", 2, 6, 6)])
    assert made.than_busy == 0.5
    assert made.than_busy_of_rounds == pytest.approx((-0.5, 0.5))


def test_reductions_without_a_baseline_or_a_gain() -> None:
    (alone,) = reductions([record("new", 1.0)])
    assert (alone.than_block, alone.than_busy, alone.wake_up_share) == (None, None, None)
    (slower,) = reductions([record("udp block", 1.0), record("udp busy", 1.0), record("new", 2.0)])
    assert slower.than_block == pytest.approx(-1.0)
    assert slower.wake_up_share is None
    (other,) = reductions([record("udp block", 60.0, op="append"), record("new", 1.0)])
    assert other.than_block is None  # of another operation


def test_udp_block_and_busy_produce_every_cell() -> None:
    with Stop() as stop:
        results = measure_transports(Course(stop, 1, TINY), subjects_of(["udp"]))
    found = {key_of(r): r for r in results.records("transport", OPS)}
    for subject in ("udp block", "udp busy"):
        assert {(op, payload) for name, op, payload in found if name == subject} == set(CELLS)
    handed = {(op, payload) for name, op, payload in found if name == HANDOVER}
    assert handed <= set(CELLS)  # none where there is one core, or other work has it
    assert "floor" not in HANDOVER  # a transport that copies once may be below it
    assert (COPY, "sampled bytes", BATCH) in found
    for one in found.values():
        assert one.p999_us is not None
        assert 0 < one.p50_us <= one.p99_us <= one.p999_us < 5e6
    stream = found["udp busy", "sampled bytes", BATCH]
    assert stream.bytes_per_second == pytest.approx(stream.per_second * BATCH_BYTES)
    records = results.records("transport", OPS)
    file = io.StringIO()
    show(records, reductions(records), file=file)
    assert max(len(line) for line in file.getvalue().splitlines()) <= 80
    ElementTree.fromstring(plot_bars("Latency", records).svg())


def test_bars_are_marked_where_cells_are_oversubscribed() -> None:
    records = [record("udp busy", 3.0), replace(record("udp block", 60.0), oversubscribed=True)]
    svg = plot_bars("Latency", records).svg()
    assert ">60 *<" in svg and ">3<" in svg
    assert "* fewer cores than threads that want one" in svg
    assert "*" not in re.findall(r">([^<]*)<", plot_bars("Latency", records[:1]).svg())


def test_a_transport_that_is_not_there_is_named_and_left_out() -> None:
    absent = Subject("absent busy", "absent:1", "busy")
    _, present = sealed_too([Subject("udp busy", "udp://127.0.0.1:0", "busy")])
    notes: list[str] = []
    with Stop() as stop:
        course = Course(stop, 1, TINY, notes.append)
        results = measure_transports(course, [absent, present], beside=False)
        assert "absent" in results.unavailable["absent busy"]
        found = {record.subject for record in results.records("transport", OPS)}
        assert found == {"udp busy, sealed"}
        assert any(line.startswith("absent busy: skipped: ") for line in notes)
        with pytest.raises(TransportError, match="no transport can be measured: "):
            measure_transports(course, [absent], beside=False)
    results = Results(cores=Cores(None, None, 1))
    results.keep("udp busy", "ping", "64 B", [1.0, 2.0], threads=2)
    (oversubscribed,) = results.records("transport", OPS)
    assert oversubscribed.oversubscribed
    file = io.StringIO()
    show([oversubscribed], [], file=file)
    assert "\n* fewer cores than threads" in file.getvalue()
    assert "MTU 3498" in " ".join(caption([], mtu=3498))


def test_shared_memory_is_measured_in_clear_alone() -> None:
    subjects = [Subject(f"{name} busy", listen, "busy") for name, listen in LISTEN.items()]
    assert [one.name for one in sealed_too(subjects) if one.sealed] == ["udp busy, sealed"]


def test_a_transport_that_fails_later_and_a_stop_keep_what_was_measured() -> None:
    failing, good = (Subject(name, "udp://127.0.0.1:0", "block") for name in ("failing", "good"))
    turns: list[str] = []

    @contextmanager
    def around(subject: Subject) -> Iterator[None]:
        turns.append(subject.name)
        if turns.count("failing") == 2 and subject is failing:
            raise TransportError("its interface is gone", "")
        yield
        if turns.count("good") == 3:
            stop.set()

    with Stop() as stop:
        results = measure_transports(
            Course(stop, 9, TINY), [failing, good], places=Places(around=around), beside=False,
        )  # fmt: skip
    assert results.unavailable == {"failing": "from round 2 on: its interface is gone"}
    pings = [r for r in results.records("transport", OPS) if (r.op, r.workload) == ("ping", "64 B")]
    assert [(r.subject, r.rounds) for r in pings] == [("failing", 1), ("good", 3)]
    assert results.interrupted


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    args = ("bench", "transport", "--json", "--quick", "--transports", "udp", "--rounds", "50")
    with command(tmp_path, *args) as running:
        running.wait_for("round 1 of 50: udp busy")
        assert running.end(signal.SIGINT) == 128 + signal.SIGINT, running.text()
    assert "interrupted: what is shown is what was measured until then" in running.err.decode()
    said = running.last_json()
    assert said["interrupted"]
    assert {r["subject"] for r in said["records"] if r["op"] == "ping"} >= {"udp block"}
    assert json.loads((tmp_path / "runs" / "bench" / "transport.json").read_text()) == said


def test_a_terminal_that_is_closed_loses_nothing(tmp_path: Path) -> None:
    args = ("bench", "transport", "--quick", "--transports", "udp", "--rounds", "50")
    ours, theirs = os.openpty()
    with subprocess.Popen([*PROGRAM, *args], cwd=tmp_path, stdout=theirs, stderr=theirs) as running:
        os.close(theirs)
        seen = b""
        while b"round 1 of 50: udp busy" not in seen:
            seen += os.read(ours, 4096)
        os.close(ours)
        running.send_signal(signal.SIGHUP)
        running.wait(60)
    said = json.loads((tmp_path / "runs" / "bench" / "transport.json").read_text())
    assert said["interrupted"]
    assert "udp block" in {r["subject"] for r in said["records"]}


def test_messages_are_handed_over_between_two_cores() -> None:
    before = os.sched_getaffinity(0)
    measured = measure_handovers(TINY, Cores.usable())
    payloads = ["64 B", "1 KiB", "7 KB frame", "8 KiB"] if len(before) > 1 else []
    assert list(measured) == [("ping", payload) for payload in payloads]
    for latencies_us in measured.values():  # none where other work has a core
        assert all(0.01 < us < 1e5 for us in latencies_us)
    assert os.sched_getaffinity(0) == before
    assert measure_handovers(TINY, Cores(None, None, 1)) == {}


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(ConfigError, match="no transport is called 'tcp'"):
        subjects_of(["udp", "tcp"])


def test_namespaces_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TransportError, match="takes root"), joined(1500):
        pass


def test_af_xdp_above_its_mtu_says_which_one_measures_it() -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces take root and ip: apt-get install iproute2")
    with over_veth(AF_XDP_MTU + 1) as (places, subjects):
        refused = []
        for subject in subjects:
            try:
                with places.around(subject):
                    pass
            except TransportError as error:
                assert "--mtu 3498" in error.remedy
                refused.append(subject.name)
    assert refused == ["udp to dpdk:af_xdp busy", "dpdk:af_xdp busy"]


_HOLDS_NAMESPACES = """
from drlnet.bench.netns import namespaces
with namespaces("q") as names:
    print(*names, flush=True)
    input()
"""


def test_namespaces_of_a_killed_benchmark_go_at_the_next_start(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces take root and ip: apt-get install iproute2")
    with ExitStack() as stack:
        holders, names = [], []
        for _ in range(2):
            holder = subprocess.Popen(
                [sys.executable, "-c", _HOLDS_NAMESPACES],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=tmp_path,  # not among the sources: the installed package is meant
            )
            stack.enter_context(holder)
            stack.callback(holder.kill)
            assert holder.stdout is not None
            names.append(holder.stdout.readline().strip())
            holders.append(holder)
        killed, running = names
        holders[0].kill()
        holders[0].wait()
        assert killed in _namespaces()
        with namespaces("q") as (own,):
            assert killed not in _namespaces()
            assert {own, running} <= _namespaces()
        holders[1].communicate("\n")
        assert not {own, running} & _namespaces()


_IS_TOLD_TWICE = """
from drlnet.bench.netns import namespaces
from drlnet.launch.signals import Stop
with Stop() as stop, namespaces("q", stop) as names:
    print(*names, flush=True)
    stop.wait()
    while True:  # busy with its end, whatever is asked of it
        pass
"""


def test_namespaces_go_at_the_second_ctrl_c_too(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces take root and ip: apt-get install iproute2")
    with subprocess.Popen(
        [sys.executable, "-c", _IS_TOLD_TWICE], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as told:
        assert told.stdout is not None
        own = told.stdout.readline().strip()
        assert own in _namespaces()
        while told.poll() is None:  # what follows at once is an echo of the first
            told.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                told.wait(0.1)
        assert told.returncode == 128 + signal.SIGINT
    assert own not in _namespaces()


def test_a_namespace_that_somebody_else_took_away_is_no_error() -> None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces take root and ip: apt-get install iproute2")
    with namespaces("q") as (own,):
        subprocess.run(["ip", "netns", "delete", own], check=True)
    assert own not in _namespaces()


def _namespaces() -> set[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in listed.stdout.splitlines()}


def test_what_cannot_be_written_is_said_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = [record("udp block", 60.0)]
    (tmp_path / "transport.json").mkdir()
    records = Records(measured)
    with (
        pytest.raises(ConfigError, match="cannot write"),
        written(Output(as_json=True), records, {tmp_path / "transport.json": records.write}),
    ):
        print("the tables")
    shown, said = capsys.readouterr().out.splitlines()
    assert shown == "the tables"
    assert json.loads(said)["records"][0]["p50_us"] == 60.0
    with pytest.raises(ConfigError, match="cannot write to"):
        require_writable(Path("/proc/none"))
    require_writable(tmp_path / "new" / "folder")


def test_an_older_result_stays_where_no_new_one_comes_to_be(tmp_path: Path) -> None:
    before = tmp_path / "sampler.json"
    before.write_text("measured before")
    with written(Output(as_json=True), Records(), {before: Records().write}):
        pass
    assert before.read_text() == "measured before"
    (tmp_path / "sampler.json.part").mkdir()  # where the bytes of a new one would go first
    with pytest.raises(ConfigError, match="cannot write"):
        Records([record("udp block", 60.0)]).write(before)
    assert before.read_text() == "measured before"
    with pytest.raises(ConfigError, match="No space left") as full:
        Records([record("udp block", 60.0)]).write(Path("/dev/full"))
    assert full.value.remedy == "make room, or choose another path"
    Records([record("udp block", 60.0)]).write(Path("/dev/null"))
    assert Path("/dev/null").is_char_device()


def test_the_command_refuses_what_it_cannot_measure(tmp_path: Path) -> None:
    for args in (["--transports", "tcp"], ["--netns", "--transports", "udp"], ["--mtu", "1500"]):
        ended = finished(tmp_path, "bench", "transport", "--json", *args, error=ConfigError)
        assert ended.last_json()["error"]["remedy"]
    finished(tmp_path, "bench", "transport", "--rounds", "0", code=2)
