"""`drlnet bench actors`: many sessions in one process, what a run says of them, the command."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from served import serving
from system.command import finished, lines_of_error

from drlnet.bench.actors import crowd
from drlnet.bench.actors.crowd import STORED, Acted, Actors, Asked, Learner
from drlnet.bench.actors.suite import Crowded, Held, held_of, plot, show
from drlnet.bench.compare import compare
from drlnet.errors import TransportError

SERVER = {"client_bytes": 24_000.0, "server_share": 0.3}
QUIET = Asked(steps_per_second=30, append_rows=3, batch=32, capacity=8192)


@contextmanager
def beside_a_server(asked: Asked) -> Iterator[tuple[Actors, Learner]]:
    """Both at a server of this process."""
    actors, learner = Actors(), Learner()
    with serving() as address:
        learner.open(address, "block", asked)
        actors.open(address, "block", asked)
        yield actors, learner
        actors.shut()
        learner.shut()


def hold(number: int, asked: Asked, seconds: float) -> None:
    """That many actors beside a learner: every row is acknowledged once, and stored once."""
    with beside_a_server(asked) as (actors, learner):
        assert actors.grow(number) == ""
        before = learner.server()
        assert before["server.clients"] == number + 3  # those of crowd.py
        cycles: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
        learning = threading.Thread(target=lambda: cycles.append(learner.learn(seconds)))
        learning.start()
        acted = actors.act(number, seconds)
        learning.join()
        appends = round(seconds * asked.steps_per_second / asked.rows)
        assert acted.latencies_us.shape == (number, appends)
        assert acted.rows == number * appends * asked.rows
        assert learner.server()[STORED] - before[STORED] == acted.rows
        assert acted.latencies_us.min() > 0
        assert acted.cpu_share > 0
        assert len(cycles[0]) > 0 and cycles[0].min() > 0


@pytest.mark.fast
def test_twenty_actors_beside_a_learner() -> None:
    hold(20, QUIET, seconds=0.3)


def test_more_actors_than_a_server_once_took() -> None:
    """At 600 sessions; and the names that they share are told apart."""
    hold(600, QUIET, seconds=2.0)


@pytest.mark.fast
def test_a_learner_cycles_until_its_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "_MOST_CYCLES", 1)
    with beside_a_server(QUIET) as (_, learner):
        cycles_us = learner.learn(0.5)
    assert len(cycles_us) > 1 and cycles_us.min() > 0
    assert cycles_us.sum() < 0.5e6 + cycles_us[-1]


@pytest.mark.fast
def test_what_refuses_the_next_actor_is_named() -> None:
    with beside_a_server(Asked("atari", capacity=1024)) as (actors, _):
        assert "streams of the table are leased" in actors.grow(200)


@pytest.mark.fast
def test_an_append_has_what_an_actor_gathers_in_5_ms() -> None:
    assert [Asked(steps_per_second=rate).rows for rate in (20, 250, 1000, 5000)] == [2, 3, 7, 8]


def acted(latencies_us: np.ndarray[tuple[int, int], np.dtype[np.float64]], elapsed_s: float,
          cpu_share: float = 0.1) -> Acted:  # fmt: skip
    return Acted(latencies_us, 5.0, latencies_us.size, elapsed_s, 0, cpu_share, 0.0)


@pytest.mark.fast
def test_the_slowest_actor_is_told() -> None:
    """11 appends in 1.1 s of each of three; of one each takes 1 s."""
    latencies = np.full((3, 11), 1000.0)
    latencies[1] = 1e6
    asked = Asked(steps_per_second=20, append_rows=2)
    held = held_of(acted(latencies, 2.0), np.full(50, 20.0), asked, 1.1, SERVER)
    assert held.figures["slowest_latency"] == 1000
    assert held.figures["slowest_rate"] == pytest.approx(1.001 / 2.0)
    assert held.figures["steps_per_second"] == pytest.approx(33)
    assert held.got == pytest.approx(33 / 60)
    assert held.figures["cycle_p99_us"] == 20


@pytest.mark.fast
def test_a_limit_names_what_is_full() -> None:
    def limit(server: float, actors: float, got: float = 0.9) -> str:
        figures = {"server_share": server, "actors_share": actors, "actors_delayed": 0.2}
        return Held(figures, got).limit()

    assert limit(0.99, 0.3) == "the server's core is busy for 99% of the time"
    assert "the process of the actors runs for 75% of the time" in limit(0.5, 0.75)
    assert "no core is full (server 50%, actors 50%)" in limit(0.5, 0.5)
    assert limit(0.99, 0.99, got=0.96) == ""


@pytest.mark.fast
def test_tables_are_of_80_columns() -> None:
    latencies = np.full((4000, 3), 1_234_567.0)
    asked = Asked("atari", 1000, 3)
    held = held_of(acted(latencies, 0.01), np.full(9, 22_222.0), asked, 1.0, SERVER)
    crowded = Crowded("dpdk:virtio-user", asked, 4000, {1: held}, True)
    assert crowded.to_dict()["workload"].startswith("4000 actors, atari, 1000 steps/s")
    file = io.StringIO()
    show([crowded], {"dpdk:virtio-user": "8000 actors: no more"}, file=file)
    assert max(map(len, file.getvalue().splitlines())) <= 80
    assert "the limit is reached at 8000 actors: no more" in file.getvalue()
    ElementTree.fromstring(plot([crowded]).svg())


def test_the_command_doubles_until_a_limit(tmp_path: Path) -> None:
    """Here the table's: it holds two windows of each of 102 streams."""
    words = ["--actors", "40", "--shape", "atari", "--capacity", "1024", "--double", "--seconds",
             "0.5", "--steps-per-second", "10", "--batch", "8", "--rounds", "1"]  # fmt: skip
    ended = finished(tmp_path, "bench", "actors", "--out", ".", "--json", *words, deadline_s=120)
    said = ended.last_json()
    assert [one["actors"] for one in said["records"]][:1] == [40]
    for one in said["records"]:
        assert one["client_bytes"] > 0
        assert one["cycle_p50_us"] > 0
        assert one["stored_rows"] == one["acknowledged_rows"] > 0
        assert 0 < one["slowest_rate"] <= 1 <= one["slowest_latency"]
    assert said["limits"]["udp"].split()[0] in {"40", "80", "160"}  # on a busy machine before it
    file = tmp_path / "actors-atari.json"
    assert json.loads(file.read_text(encoding="utf-8"))["records"] == said["records"]
    assert not any(change.verdict for change in compare(file, file).changes)
    ElementTree.fromstring((tmp_path / "actors-atari.svg").read_text(encoding="utf-8"))


def test_an_unknown_transport_is_refused(tmp_path: Path) -> None:
    ended = finished(tmp_path, "bench", "actors", "--transport", "udb", code=3)
    assert "udb" in lines_of_error(ended)[0]


def test_an_append_that_no_request_takes_is_refused(tmp_path: Path) -> None:
    words = ["--shape", "atari", "--append-rows", "40", "--actors", "1", "--capacity", "1024"]
    ended = finished(tmp_path, "bench", "actors", *words, error=TransportError)
    assert "40 rows" in "".join(lines_of_error(ended))
