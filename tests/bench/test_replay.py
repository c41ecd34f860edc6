"""The benchmark of replay memories, small: ours and an in-process one, what fails, what is left."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from system.command import Command, finished

from drlnet.bench import peers
from drlnet.bench.engine import Course, Effort
from drlnet.bench.peers.numpy import Numpy
from drlnet.bench.processes import Stopped, Worker, WorkerFailed
from drlnet.bench.records import Record, Round, key_of
from drlnet.bench.replay.learner import ALONE, BESIDE, CYCLE, PREFETCHED
from drlnet.bench.replay.memory import BY, Block, blocks_of, first_of
from drlnet.bench.replay.ours import Mirrored, Ours
from drlnet.bench.replay.suite import (
    OPS,
    SUITE,
    Results,
    Subject,
    Work,
    is_floor,
    measure_replays,
    ratios,
    shares,
    show,
    subjects_of,
)
from drlnet.bench.shapes import Shape
from drlnet.client import Column
from drlnet.errors import ConfigError
from drlnet.launch.signals import Stop

NUMPY = partial(peers.imported, peers.MEMORIES, "numpy")
TINY = Effort(calls=4, budget_s=1.0, warm_up=1)
FRAME = Column("uint8", (6, 6))
FRAMES = Shape("tiny frames", FRAME, 4, 3, 2000)
WHOLE = Shape("tiny rows", FRAME, 4, 1, 2000, whole=True)
VECTORS = Shape("tiny vectors", Column("float32", (4,)), 1, 1, 2000)


def measured(subjects: list[Subject], clients: list[int], notes: list[str]) -> Results:
    work = Work("tiny", {"": VECTORS}, 1e5)
    with Stop() as stop:
        return measure_replays(Course(stop, 1, TINY, notes.append), [(work, subjects)], clients)


def blocks(shape: Shape, count: int) -> Iterator[Block]:
    made = blocks_of(shape)
    for _ in range(count):
        yield next(made)


def test_ours_and_an_in_process_memory_do_the_same_work() -> None:
    ours = next(
        s for s in subjects_of(Work("", {"": VECTORS}, 1e5), ["udp"], []) if "block" in s.name
    )
    numpy = Subject("numpy", NUMPY, VECTORS, resident=True)
    results = measured([ours, numpy], [0, 2], [])
    assert not results.unavailable
    records = {key_of(r): r for r in results.records(SUITE, OPS)}
    for name in ("udp block", "numpy"):
        for op in ALONE:
            assert records[name, op, "tiny"].rounds == 1
        for op in BESIDE:
            assert records[name, op, "tiny, 2 inserting"].rounds == 1
    assert ("udp block", PREFETCHED, "tiny") in records
    assert ("numpy", PREFETCHED, "tiny") not in records
    assert results.includes.keys() == {"numpy"}
    beside = results.inserted_per_second()["tiny, 2 inserting"]
    assert all(beside[name] > 0 for name in ("udp block", "numpy"))
    floors = {subject for subject, _, _ in records if is_floor(subject)}
    assert floors == {"memcpy (floor)", "bare udp block (floor)"}


@pytest.mark.parametrize("kind", [Ours, Mirrored])
@pytest.mark.parametrize("shape", [VECTORS, FRAMES, WHOLE], ids=lambda shape: shape.name)
def test_our_rows_are_the_transitions_that_were_inserted(shape: Shape, kind: type[Ours]) -> None:
    memory = kind("udp://127.0.0.1:0", "block", shape)
    try:
        given = list(blocks(shape, 8))
        for block in given:
            memory.insert(block)
        memory.insert(first_of(given[0]))
        memory.wait_for_inserts()
        keys, weights, rows = memory.sample(64)
        assert len(keys) == len(weights) == 64
        assert rows["obs"].shape == rows["next_obs"].shape == (64, *shape.stacked.shape)
        newest = {tuple(np.ravel(row)) for block in given for row in _newest(shape, block["obs"])}
        assert {tuple(np.ravel(row)) for row in _newest(shape, rows["obs"])} <= newest
        memory.update(keys, np.full(64, 2.0, np.float32))
        prefetching = memory.prefetching(16)
        with prefetching as step:
            for _ in range(4):
                step(np.ones(16, np.float32))
    finally:
        memory.close()


def _newest(shape: Shape, obs: np.ndarray) -> np.ndarray:
    return obs if shape.stack == 1 else obs[:, -1]


@pytest.mark.skipif(
    not (shutil.which("redis-server") and find_spec("redis")), reason="no redis-server, or no redis"
)
def test_redis_holds_the_transitions_that_its_clients_insert() -> None:
    memory = peers.imported(peers.MEMORIES, "redis")(VECTORS)
    try:
        given = list(blocks(VECTORS, VECTORS.capacity // BY))
        door = memory.door()()
        for block in given[:-1]:
            door.insert(block)
        door.close()
        memory.insert(given[-1])
        memory.wait_for_inserts()
        slots, weights, rows = memory.sample(500)
        for name in given[0]:
            inserted = np.concatenate([block[name] for block in given])
            assert (rows[name] == inserted[slots]).all()
        assert slots.max() >= VECTORS.capacity - BY and weights.max() == 1.0
        memory.update(slots[:1], np.array([1e9], np.float32))
        drawn, _, _ = memory.sample(100)
        assert (drawn == slots[0]).mean() > 0.9
    finally:
        memory.close()
    assert not children()


def test_the_in_process_memory_keeps_what_is_newest() -> None:
    memory = Numpy(Shape("", Column("float32", (4,)), 1, 1, 3 * BY))
    given = list(blocks(VECTORS, 4))
    for index, block in enumerate(given):
        memory.insert({**block, "action": np.full(BY, index, np.int32)})
    slots, weights, rows = memory.sample(500)
    assert set(rows["action"]) == {1, 2, 3}
    assert weights.max() == 1.0
    memory.update(np.arange(3 * BY), np.full(3 * BY, 1e-6, np.float32))
    memory.update(slots[:1], np.array([1000.0], np.float32))
    drawn, _, _ = memory.sample(100)
    assert (drawn == slots[0]).mean() > 0.9


def children() -> list[int]:
    """Processes that this one has started."""
    own = os.getpid()
    return [int(pid) for pid in Path(f"/proc/{own}/task/{own}/children").read_text().split()]


def test_a_peer_that_dies_in_the_middle_is_left_out_and_what_it_did_is_kept() -> None:
    notes: list[str] = []
    results = Results()

    def note(line: str) -> None:
        notes.append(line)
        if line == "tiny, round 2 of 2: numpy":
            for pid in children():
                os.kill(pid, signal.SIGKILL)

    numpy = Subject("numpy", NUMPY, VECTORS, resident=True)
    too_large = replace(VECTORS, capacity=1 << 55)
    endless = Subject("too large", NUMPY, too_large, resident=True)
    with Stop() as stop:
        work = Work("tiny", {}, 1e5)
        results = measure_replays(Course(stop, 2, TINY, note), [(work, [numpy, endless])], [0])
    assert results.unavailable["numpy"] == "from round 2 on: it was killed by SIGKILL"
    assert "Memory" in results.unavailable["too large"]
    assert "numpy: skipped: from round 2 on: it was killed by SIGKILL" in notes
    kept = {(r.op, r.rounds) for r in results.records(SUITE, OPS) if r.subject == "numpy"}
    assert kept == {(op, 1) for op in ALONE}
    assert not children()


def test_a_worker_says_why_it_could_not_be_made_and_ends_with_its_owner() -> None:
    with Stop() as stop:
        with Worker(stop, partial(int, "x")) as worker, pytest.raises(WorkerFailed, match="'x'"):
            worker.call("bit_length")
        with Worker(stop, partial(int, "6")) as worker:
            assert worker.call("bit_length") == 3
            pid = worker.pid
            stop.set()
            with pytest.raises(Stopped):
                worker.call("bit_length")
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_killed_workers_temporary_files_go_and_those_of_a_killed_benchmark() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = Path(tempfile.gettempdir()) / f"drlnet-worker-{ended.pid}-left"
    left.mkdir()
    (left / "socket").touch()
    with Stop() as stop, Worker(stop, tempfile.mkdtemp) as worker:
        assert not left.exists()
        made = Path(worker.call("__str__"))
        assert made.is_dir()
        os.kill(worker.pid, signal.SIGKILL)
        with pytest.raises(WorkerFailed, match="SIGKILL"):
            worker.call("__str__")
    assert not made.exists()
    assert not list(made.parent.parent.glob(f"drlnet-worker-{os.getpid()}-*"))


def record(subject: str, op: str, workload: str, per_second: float) -> Record:
    us = 1e6 / per_second
    rounds = (Round(1, us, 2 * us, us),)
    return Record("replay", subject, workload, op, us, 2 * us, per_second, 1, by_round=rounds)


def test_ratios_and_shares_are_of_the_same_work() -> None:
    records = [
        record("dpdk:local busy", CYCLE, "atari", 80.0),
        record("dpdk:local busy", PREFETCHED, "atari", 100.0),
        record("udp busy, rows", PREFETCHED, "atari", 50.0),
        record("cpprb", CYCLE, "atari", 20.0),
        record("cpprb", CYCLE, "elsewhere", 20.0),
        record("bare udp busy (floor), rows", "sample 512", "atari", 200.0),
        record("memcpy (floor)", "sample 512", "atari", 400.0),
    ]
    found = ratios(records, "dpdk:local busy")
    assert [(r.subject, r.op, r.ratio) for r in found] == [
        ("dpdk:local busy", CYCLE, 1.25),
        ("udp busy, rows", PREFETCHED, 2.0),
        ("cpprb", CYCLE, 5.0),
    ]
    assert [(s.subject, s.op, s.baseline, s.ratio) for s in shares(records)] == [
        ("dpdk:local busy", CYCLE, "memcpy (floor)", 0.2),
        ("dpdk:local busy", PREFETCHED, "memcpy (floor)", 0.25),
        ("udp busy, rows", PREFETCHED, "bare udp busy (floor), rows", 0.25),
    ]
    file = io.StringIO()
    show(records, found, shares(records), {"cpprb": "in process"}, file=file)
    lines = file.getvalue().splitlines()
    assert max(len(line) for line in lines) <= 80
    assert any("5.00x" in line for line in lines)
    assert any("25%" in line for line in lines)


def test_ratios_and_shares_are_taken_within_rounds() -> None:
    def of(subject: str, op: str, *us: float) -> Record:
        return Record.of("replay", subject, "atari", op, {n: [t] for n, t in enumerate(us, 1)})

    records = [
        of("udp busy", "sample 512", 10, 30, 30),
        of("cpprb", "sample 512", 20, 20, 60),
        of("bare udp busy (floor)", "sample 512", 5, 15, 15),
    ]
    (ratio,) = ratios(records, "udp busy")
    assert (ratio.ratio, ratio.low, ratio.high) == (2.0, pytest.approx(2 / 3), 2.0)
    (share,) = shares(records)
    assert (share.ratio, share.low, share.high) == (0.5, 0.5, 0.5)


def test_the_command_writes_what_it_measured(tmp_path: Path) -> None:
    small = ("--works", "small", "--clients", "0", "--rounds", "1", "--quick")
    ended = finished(
        tmp_path, "bench", "replay", "--json", *small, "--transports", "none", "--against", "numpy"
    )
    said = ended.last_json()
    assert {"machine", "command", "records", "ratios", "unavailable"} <= said.keys()
    assert {(r["suite"], r["subject"]) for r in said["records"]} == {("replay", "numpy")}
    assert not said["interrupted"]
    folder = tmp_path / "runs" / "bench"
    assert json.loads((folder / "replay.json").read_text()) == said
    ElementTree.parse(folder / "replay.svg")


def test_ctrl_c_keeps_what_was_measured_and_leaves_nothing_behind(tmp_path: Path) -> None:
    command = Command(
        [
            *("bench", "replay", "--json", "--works", "small", "--clients", "0"),
            *("--transports", "udp", "--against", "numpy", "--rounds", "50", "--quick"),
        ],
        tmp_path,
    )
    command.wait_for("round 1 of 50: numpy")
    started = Path(f"/proc/{command.popen.pid}/task/{command.popen.pid}/children").read_text()
    assert command.end(signal.SIGINT) == 130, command.text()
    said = json.loads((tmp_path / "runs" / "bench" / "replay.json").read_text())
    assert said["interrupted"]
    assert {"udp busy", "udp block"} <= {r["subject"] for r in said["records"]}
    for pid in started.split():
        assert not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize(
    ("args", "cause", "remedy"),
    [
        (["--against", "cpprd"], "cpprd", "cpprb"),
        (["--works", "large"], "large", "small"),
        (["--transports", "upd"], "upd", "udp"),
        (["--clients", "few"], "few", "0,1,2"),
        (["--transports", "none", "--against", "none"], "nothing to measure", "name transports"),
        (["--out", "/proc/none"], "cannot write to /proc/none", "--out"),
    ],
)
def test_the_command_refuses_what_it_cannot_measure(
    tmp_path: Path, args: list[str], cause: str, remedy: str
) -> None:
    ended = finished(tmp_path, "bench", "replay", "--json", *args, error=ConfigError)
    said = ended.last_json()["error"]
    assert cause in said["cause"]
    assert remedy in said["remedy"]
