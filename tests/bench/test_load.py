"""`drlnet bench load`: the search for the knee, what a step says, and the command."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from system.command import finished, lines_of_error

from drlnet.bench.compare import compare
from drlnet.bench.engine import Course, Effort, Results
from drlnet.bench.load.generator import EDGES_US, MEMORY, Asked, Generator, Op, Step
from drlnet.bench.load.suite import LIGHT, Loaded, measure_loads, plot, search, show
from drlnet.bench.processes import served
from drlnet.bench.transport.suite import Subject
from drlnet.launch.signals import Stop

CAPACITY = 50_000.0  # of the servers below, per second


def step(offered: float, per_second: float, p99_us: float) -> Step:
    figures = {"per_second": per_second, "p50_us": 10.0, "p99_us": p99_us, "mean_us": 12.0}
    counts = np.histogram([10.0] * 99 + [p99_us], EDGES_US)[0]
    return Step(offered, figures, counts)


def queue(offered: float) -> Step:
    """A server with one queue, whose tail grows as it fills: ten times as long at 90%."""
    share = offered / CAPACITY
    if share >= 1:
        return step(offered, CAPACITY, 1e6)
    return step(offered, offered, 100 / (1 - share))


def searched(offer: Callable[[float], Step]) -> tuple[float, list[float]]:
    kept: list[Step] = []
    return search(offer, kept.append), [one.offered for one in kept]


def test_the_knee_is_where_the_tail_has_grown_tenfold() -> None:
    knee, loads = searched(queue)
    at_light = 1 - LIGHT / CAPACITY
    assert 0.95 * (1 - at_light / 10) * CAPACITY <= knee <= (1 - at_light / 10) * CAPACITY
    assert loads[:7] == [LIGHT * 2**n for n in range(7)], "doubled until it is too much"
    assert len(set(loads)) == len(loads)


def test_the_knee_is_where_answers_no_longer_keep_up() -> None:
    knee, _ = searched(lambda offered: step(offered, min(offered, CAPACITY), 100.0))
    assert CAPACITY / 1.05 <= knee <= CAPACITY / 0.95


def test_a_machine_that_halts_once_has_no_knee_there() -> None:
    halted = {4 * LIGHT, 16 * LIGHT}

    def offer(offered: float) -> Step:
        if offered in halted:
            halted.remove(offered)
            return step(offered, offered, 1e6)
        return queue(offered)

    assert searched(offer)[0] == searched(queue)[0]
    assert not halted


def test_a_light_load_that_is_too_much_is_halved() -> None:
    knee, loads = searched(lambda offered: step(offered, min(offered, 100.0), 100.0))
    assert 100 / 1.05 <= knee <= 100 / 0.95
    assert loads[0] == LIGHT / 16
    assert not math.isnan(knee)


def test_a_record_has_medians_and_the_histogram_of_all_rounds() -> None:
    rounds = {1: queue(2000), 2: queue(2000), 4: step(2000, 1990, 5000.0)}
    loaded = Loaded("udp busy", Asked("ping", 8, loss=0.01, delay_us=200), 2000, rounds, True)
    said = loaded.to_dict()
    assert said["workload"] == "8 B, loss 0.01, delay 200 us, 2,000/s"
    assert said["p99_us"] == queue(2000).figures["p99_us"]
    assert "server_cpu_us" not in said
    assert [one.number for one in said["by_round"]] == [1, 2, 4]
    edges, counts = said["histogram"]["edges_us"], said["histogram"]["counts"]
    assert len(edges) == len(counts) + 1
    assert edges == sorted(edges)
    assert sum(counts) == 300
    assert edges[0] <= 10 <= edges[1] and edges[-2] <= 5000 <= edges[-1]
    file = io.StringIO()
    show([loaded], {}, file=file)
    text = file.getvalue()
    assert "2,000/s *" in text and "-/-" in text
    assert max(map(len, text.splitlines())) <= 80
    ElementTree.fromstring(plot([loaded]).svg())


@pytest.mark.parametrize("op", ["ping", "append", "sample"])
def test_a_step_over_a_faulty_link(op: Op) -> None:
    asked, load = Asked(op, 100, 5, delay_us=2000), Generator()
    with Stop() as stop, served(stop, ["udp://127.0.0.1:0"], "block") as (process, (address,)):
        load.open(address, "block", asked, process.pid, None)
        found = load.step(200, 0.2)
        load.shut()
    assert found.counts.sum() == 40
    figures = found.figures
    assert 4000 <= figures["p50_us"] <= figures["p90_us"] <= figures["p99_us"] <= figures["p999_us"]
    assert 0 < figures["per_second"] <= 200
    for side in ("client", "server"):
        assert figures[f"{side}_cpu_us"] > 0
        assert figures[f"{side}_switches"] > 0


def test_memory_counts_its_server_apart() -> None:
    subject, found = Subject("memory busy", MEMORY, "busy"), Asked("ping", 8)
    with Stop() as stop:
        results = measure_loads(Course(stop, 1, Effort(budget_s=0.02)), [subject], found)
    assert isinstance(results, Results)
    first, *_ = results.loaded(found)
    for side in ("client", "server"):
        assert (first.figure(f"{side}_cpu_us") or 0) > 0
    assert results.knees_of_rounds()["memory busy"].median >= first.offered


def test_the_command(tmp_path: Path) -> None:
    words = ["--quick", "--rounds", "1", "--op", "ping", "--payload", "8", "--delay", "1ms"]
    ended = finished(tmp_path, "bench", "load", "--transports", "memory", "--out", ".", "--json",
                     *words, deadline_s=120)  # fmt: skip
    said = ended.last_json()
    file = tmp_path / "load-ping.json"
    assert json.loads(file.read_text(encoding="utf-8"))["records"] == said["records"]
    assert said["knees"]["memory busy"]["median"] > 0
    assert {"machine", "setup", "version"} <= said.keys()
    for one in said["records"]:
        assert one["p50_us"] >= 2000
        assert sum(one["histogram"]["counts"]) >= 20
    ElementTree.fromstring((tmp_path / "load-ping.svg").read_text(encoding="utf-8"))
    assert not any(change.verdict for change in compare(file, file).changes)


@pytest.mark.slow
def test_a_client_beside_floods(tmp_path: Path) -> None:
    words = ["--quick", "--rounds", "1", "--op", "ping", "--payload", "8"]
    ended = finished(tmp_path, "bench", "load", "--flood", "--out", ".", "--json", *words,
                     deadline_s=240)  # fmt: skip
    records = ended.last_json()["records"]
    assert [(one["subject"], one["workload"].split(", ")[-1]) for one in records] == [
        (subject, kind)
        for subject in dict.fromkeys(one["subject"] for one in records)
        for kind in ("alone", "garbage", "hellos", "replays", "appends")
    ]
    assert {one["subject"] for one in records} == {"udp block", "udp busy"}
    assert all(0 < one["p50_us"] <= one["p99_us"] for one in records)
    ElementTree.fromstring((tmp_path / "flood-ping.svg").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (["--delay", "5"], "'5' is not a time"),
        (["--transports", "memori"], "memori"),
        (["--server", "udp://127.0.0.1:1", "--transports", "udp"], "--server names a transport"),
        (["--flood", "--transports", "dpdk:local"], "--flood sends over udp alone"),
    ],
)
def test_refused(tmp_path: Path, words: list[str], cause: str) -> None:
    ended = finished(tmp_path, "bench", "load", *words, code=3)
    assert cause in lines_of_error(ended)[0]


def test_a_server_that_runs_already(tmp_path: Path) -> None:
    with Stop() as stop, served(stop, ["udp://127.0.0.1:0"], "block") as (_, (address,)):
        ended = finished(tmp_path, "bench", "load", "--server", address, "--quick", "--rounds",
                         "1", "--op", "ping", "--json", deadline_s=120)  # fmt: skip
    said: dict[str, Any] = ended.last_json()
    assert {one["subject"] for one in said["records"]} == {"udp block", "udp busy"}
    assert said["setup"]["nics"][0]["interface"] == "lo"
    assert "server_cpu_us" not in said["records"][0]
