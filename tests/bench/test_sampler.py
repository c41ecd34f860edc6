"""The benchmark of samplers, small: what it measures, what it derives, what it refuses."""

from __future__ import annotations

import io
import json
import os
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from system.command import finished

from drlnet import native
from drlnet.bench import measure
from drlnet.bench.engine import Course, Effort, Results
from drlnet.bench.processes import Worker, WorkerFailed
from drlnet.bench.records import Record, Round, key_of
from drlnet.bench.samplers import (
    DISTRIBUTIONS,
    OPS,
    Drawer,
    Subject,
    live,
    measure_samplers,
    plot,
    priorities_of,
    ratios,
    show,
    sizes_of,
    subjects_of,
    words_of,
    workload_of,
)
from drlnet.errors import ConfigError, TransportError
from drlnet.launch.signals import Stop

TINY = Effort(calls=10, budget_s=1.0, warm_up=2)


def measured(
    subjects: list[Subject], sizes: list[int], notes: list[str], rounds: int = 2
) -> Results:
    with Stop() as stop:
        return measure_samplers(
            Course(stop, rounds, TINY, notes.append),
            subjects,
            sizes=sizes,
            batch=16,
            distribution="exponential",
        )


def records_of(results: Results) -> list[Record]:
    return results.records("sampler", OPS)


def test_subjects_take_turns() -> None:
    seen: list[str] = []
    behind: list[int] = []

    def turn(one: Path) -> None:
        seen.append(one.name)
        if len(seen) == 4:
            raise ConfigError("no more of it", "none")

    subjects, results = [Path(name) for name in "abc"], Results()
    with Stop() as stop:
        course = Course(stop, 3)
        results.take_turns(course, subjects, turn, behind=lambda left: behind.append(len(left)))
        stop.set()
        with results.until_stopped():
            results.take_turns(course, subjects, turn)
    assert "".join(seen) == "abc" + "bca" + "ac" + "a"
    assert behind == [3, 2, 2]
    assert results.unavailable == {"b": "from round 2 on: no more of it\n  try: none"}
    assert results.interrupted


def test_floors_that_fail_cost_no_round() -> None:
    behind: list[int] = []

    def fail_later(left: list[Path]) -> None:
        behind.append(len(left))
        if len(behind) == 2:
            raise TransportError("the bare transfer stands still", "")

    results = Results()
    with Stop() as stop:
        subjects, course = [Path(name) for name in "ab"], Course(stop, 3)
        results.take_turns(
            course, subjects, lambda one: results.keep(one.name, "draw", "", [1.0]),
            what="atari, ", behind=fail_later,
        )  # fmt: skip
    assert behind == [2, 2]
    assert all(len(rounds) == 3 for rounds in results.rounds.values())
    cause = "from round 2 on: the bare transfer stands still"
    assert results.unavailable == {"atari, floors": cause}


@pytest.mark.parametrize(
    ("words", "sizes"),
    [
        ("1000", [1000]),
        ("2^20,2^10", [1 << 10, 1 << 20]),
        (" 2^3 .. 2^5 , 16, 7", [7, 8, 16, 32]),
        ("2^27", [1 << 27]),
    ],
)
def test_sizes(words: str, sizes: list[int]) -> None:
    assert sizes_of(words) == sizes
    assert sizes_of(",".join(words_of(size) for size in sizes)) == sizes


@pytest.mark.parametrize(
    "words", ["0", "-1", "", "2^28", "2^99", "many", "1e6", "2^5..2^3", "3..2^5", "2^3..", "2^10,"]
)
def test_sizes_that_cannot_be(words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sizes_of(words)
    assert "2^10..2^27" in caught.value.remedy


def test_priorities_are_usable_and_the_same_each_time() -> None:
    for name in DISTRIBUTIONS:
        priorities = priorities_of(name, 5000)
        assert priorities.dtype == np.float32
        assert np.isfinite(priorities).all()
        assert (priorities >= 0).all()
        np.testing.assert_array_equal(priorities, priorities_of(name, 5000))
    wide = priorities_of("wide", 5000)
    assert wide.max() / wide.min() > 1e11
    with pytest.raises(ConfigError, match="no distribution is called 'normal'"):
        priorities_of("normal", 1)


def test_every_sampler_is_measured_over_every_size() -> None:
    notes: list[str] = []
    results = measured(subjects_of(None, ["numpy"]), [100, 1024], notes)
    records = {key_of(r): r for r in records_of(results)}
    kernels = [f"prioritized, {kernel}" for kernel in measure.kernel_names()[1:]]
    for name in [*native.sampler_names(), *kernels, "numpy"]:
        for op in ("draw", "update"):
            for size in (100, 1024):
                record = records.pop((name, op, workload_of(size, 16)))
                assert record.rounds == 2
                assert 0 < record.p50_us <= record.p99_us
    assert not records
    assert results.includes.keys() == {"numpy"}
    assert not results.unavailable


def test_a_kernel_runs_in_the_process_that_measures_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DRLNET_KERNEL", raising=False)
    *faster, slowest = measure.kernel_names()
    (subject,) = subjects_of(["prioritized"], [], [slowest])
    assert subject.name == (f"prioritized, {slowest}" if faster else "prioritized")
    find = partial(partial, partial(live, "prioritized", "none such"))
    with (
        Stop() as stop,
        Worker(stop, partial(Drawer, find)) as drawer,
        pytest.raises(WorkerFailed, match="DRLNET_KERNEL names 'none such'"),
    ):
        drawer.call("open", "uniform", 10)
    assert "DRLNET_KERNEL" not in os.environ


PEER = """
import ctypes, os, signal, threading
import numpy as np
class PrioritizedReplayBuffer:
    def __init__(self, *args, **settings): pass
    def add(self, **block): pass
    def sample(self, batch, beta): return {"indexes": np.arange(batch), "weights": np.ones(batch)}
    def update_priorities(self, *args): FAILS
"""


@pytest.mark.parametrize(
    ("fails", "cause"),
    [
        ("raise MemoryError('no more')", "MemoryError: no more"),
        ("raise SystemExit(3)", "it ended with exit code 3"),
        ("ctypes.string_at(0)", "it was killed by SIGSEGV"),
    ],
)
def test_a_peer_that_fails_in_the_middle_is_left_out_and_what_it_did_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, cause: str
) -> None:
    give_cpprb(tmp_path, monkeypatch, PEER.replace("FAILS", fails))
    notes: list[str] = []
    results = measured(subjects_of(["uniform"], ["cpprb"]), [10, 20], notes)
    assert results.unavailable == {"cpprb": cause}
    assert notes.count(f"cpprb: skipped: {cause}") == 1
    kept = [(r.subject, r.op, r.workload, r.rounds) for r in records_of(results)]
    assert kept == [
        ("uniform", "draw", "16 of 10", 2),
        ("cpprb", "draw", "16 of 10", 1),
        ("uniform", "draw", "16 of 20", 2),
        ("uniform", "update", "16 of 10", 2),
        ("uniform", "update", "16 of 20", 2),
    ]


def give_cpprb(folder: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """A module of that name, for processes that are started meanwhile."""
    (folder / "cpprb.py").write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


def test_a_peer_whose_import_hangs_is_left_out_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_cpprb(tmp_path, monkeypatch, "import threading; threading.Event().wait()")
    monkeypatch.setattr("drlnet.bench.processes.IMPORT_S", 0.1)
    results = measured(subjects_of([], ["cpprb"]), [10], [])
    assert results.unavailable == {"cpprb": "not imported within 0.1 s"}


def test_a_peer_that_hangs_in_the_middle_is_left_out_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_cpprb(tmp_path, monkeypatch, PEER.replace("FAILS", "threading.Event().wait()"))
    monkeypatch.setattr("drlnet.bench.processes.MEASURE_S", 5.0)
    results = measured(subjects_of(["uniform"], ["cpprb"]), [10, 20], [])
    assert results.unavailable == {"cpprb": "no answer within 5 s"}
    assert not results.interrupted
    kept = {(r.subject, r.op, r.workload) for r in records_of(results)}
    assert ("cpprb", "draw", "16 of 10") in kept
    assert ("uniform", "update", "16 of 20") in kept


def test_a_peer_that_hangs_is_left_by_ctrl_c_and_what_was_measured_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = f"os.kill({os.getpid()}, signal.SIGINT); threading.Event().wait()"
    give_cpprb(tmp_path, monkeypatch, PEER.replace("FAILS", hangs))
    results = measured(subjects_of(["uniform"], ["cpprb"]), [10, 20], [])
    assert results.interrupted
    kept = [(r.subject, r.op, r.workload) for r in records_of(results)]
    assert kept == [
        ("uniform", "draw", "16 of 10"),
        ("cpprb", "draw", "16 of 10"),
        ("uniform", "update", "16 of 10"),
    ]


def record(subject: str, op: str, workload: str, p50_us: float) -> Record:
    rounds = (Round(1, p50_us, 2 * p50_us, p50_us),)
    return Record(
        "sampler", subject, workload, op, p50_us, 2 * p50_us, 1e6 / p50_us, 1, by_round=rounds
    )


def test_ratios_are_to_the_baseline_of_the_same_cell() -> None:
    found = ratios(
        [
            record("ours", "draw", "w", 10.0),
            record("theirs", "draw", "w", 40.0),
            record("theirs", "draw", "elsewhere", 40.0),
        ],
        "ours",
    )
    assert [(r.subject, r.op, r.baseline, r.ratio) for r in found] == [
        ("theirs", "draw", "ours", 4.0),
    ]


def test_the_table_fits_and_the_plot_marks_the_caches() -> None:
    sizes = {workload_of(2**power, 512): 2**power for power in (10, 20)}
    records = [
        record(subject, op, workload, p50_us)
        for op in ("draw", "update")
        for workload, p50_us in zip(sizes, (3.0, 300.0), strict=True)
        for subject in ("prioritized", "numpy")
    ]
    file = io.StringIO()
    includes = {name: f"draw: {name}; update: y" for name in ("numpy", "failed")}
    show(records, ratios(records, "prioritized"), includes, file=file)
    lines = file.getvalue().splitlines()
    assert max(len(line) for line in lines) <= 80
    assert any("1.00x" in line for line in lines)
    assert "  numpy: draw: numpy; update: y" in lines
    assert "failed" not in file.getvalue()
    caches = {"L1": 48 * 1024, "L2": 2 << 20, "L3": 480 << 20}
    svg = plot(records, sizes, caches).svg()
    words = [part.text for part in ElementTree.fromstring(svg).iter()]
    assert words.count("L2 2 MiB") == 2  # in the draws' panel and in the updates'
    assert not any(word and word.startswith("L3") for word in words)  # beyond the sizes
    one_size = {key: value for key, value in sizes.items() if value == 2**10}
    ElementTree.fromstring(plot(records, one_size, caches).svg())


def test_the_command_writes_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_cpprb(tmp_path, monkeypatch, "raise OSError('broken')")
    small = ("--sizes", "64,2^10", "--batch", "8", "--rounds", "1", "--quick")
    chosen = ("--samplers", "uniform,prioritized", "--peers", "numpy,cpprb")
    ended = finished(tmp_path, "bench", "sampler", "--json", *small, *chosen)
    said = ended.last_json()
    assert {"machine", "command", "records", "ratios", "unavailable"} <= said.keys()
    assert "l1_cache_bytes" in said["machine"]
    assert {r["suite"] for r in said["records"]} == {"sampler"}
    assert {r["baseline"] for r in said["ratios"]} == {"uniform"}
    assert said["unavailable"] == {"cpprb": "OSError: broken"}
    folder = tmp_path / "runs" / "bench"
    assert json.loads((folder / "sampler.json").read_text()) == said
    ElementTree.parse(folder / "sampler.svg")


@pytest.mark.parametrize(
    ("args", "cause", "remedy"),
    [
        (["--samplers", "prioritised"], "prioritised", "prioritized"),
        (["--peers", "tianshu"], "tianshu", "tianshou"),
        (["--sizes", "0"], "0 leaves", "from 1 to 2^27"),
        (["--batch", "0"], "a batch of 0", "from 1 to 65536"),
        (["--kernels", "portible"], "portible", "portable"),
        (["--kernels", "portable", "--samplers", "fifo"], "prioritized has", "add prioritized"),
        (["--kernels", "none"], "no kernel of this CPU", "portable"),
        (["--priorities", "gauss"], "gauss", "uniform"),
        (["--samplers", "none", "--peers", "none"], "nothing to measure", "name samplers"),
    ],
)
def test_the_command_refuses_what_it_cannot_measure(
    tmp_path: Path, args: list[str], cause: str, remedy: str
) -> None:
    ended = finished(tmp_path, "bench", "sampler", "--json", *args, error=ConfigError)
    said = ended.last_json()["error"]
    assert cause in said["cause"]
    assert remedy in said["remedy"]
    assert "\n" not in said["cause"] + said["remedy"]
