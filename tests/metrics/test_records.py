"""A run's records: each form holds the same figures, and JSON that any tool reads."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from metrics.readings import busy_server
from tensorboardX.proto.event_pb2 import Event

from drlnet.errors import RunFolderError
from drlnet.metrics import RunFolder, RunRecords
from drlnet.metrics.tensorboard import tag_of


def events_in(folder: Path) -> Iterator[Event]:
    """TFRecord: length, its checksum, the event, its checksum; the first event is the version."""
    (path,) = folder.iterdir()
    data = path.read_bytes()
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        yield Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]


@pytest.fixture(scope="module")
def reading() -> Mapping[str, Any]:
    with busy_server() as (server, _):
        return server.stats()


def test_every_form_holds_the_reading(tmp_path: Path, reading: Mapping[str, Any]) -> None:
    folder = RunFolder(tmp_path)
    records = RunRecords(folder)
    learner = {"env_steps": 20, "loss": math.nan, "learner_steps": 7}
    records.add(learner, reading)
    records.add({**learner, "env_steps": 40}, reading)
    records.close()

    lines = list(folder.readings())
    assert [line["role"] for line in lines] == ["learner", "server"] * 2
    assert lines[0]["loss"] is None
    assert lines[0]["time"] == lines[1]["time"]
    assert lines[1]["table.replay.items_drawn"] == reading["table.replay.items_drawn"]
    kept, exact = lines[1]["server.append.handling"], reading["server.append.handling"]
    assert kept["count"] == exact.count
    assert kept["p999_us"] == pytest.approx(exact.percentile_us(0.999), rel=1e-5)

    latency = json.loads(folder.latency_path.read_text())["server.append.handling"]
    assert [tuple(bucket) for bucket in latency["buckets"]] == list(exact.buckets)

    _, *events = events_in(folder.tensorboard_path)
    assert [event.step for event in events] == [20, 40]
    assert events[0].wall_time == pytest.approx(lines[0]["time"], abs=0.001)
    scalars = {value.tag: value.simple_value for value in events[0].summary.value}
    assert scalars["client.learner/loss"] == 0.5
    assert scalars["table.replay/items_drawn"] == reading["table.replay.items_drawn"]
    assert scalars["server/append.handling.p99_us"] == pytest.approx(exact.percentile_us(0.99))
    assert not any("my own" in tag for tag in scalars)


def test_tensorboard_can_be_left_out(tmp_path: Path, reading: Mapping[str, Any]) -> None:
    folder = RunFolder(tmp_path)
    records = RunRecords(folder, tensorboard=False)
    records.add({"env_steps": 1}, reading)
    records.close()
    assert not folder.tensorboard_path.exists()
    assert folder.latency_path.exists()


def test_without_a_reading_nothing_is_left(tmp_path: Path) -> None:
    RunRecords(RunFolder(tmp_path)).close()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_gone(tmp_path: Path, reading: Mapping[str, Any]) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    records = RunRecords(RunFolder(blocked))
    for _ in range(2):
        records.add({"env_steps": 1}, reading)
    records.close()
    assert isinstance(records.failure, RunFolderError)
    assert "cannot write" in records.failure.cause and "metrics.jsonl" in records.failure.cause


@pytest.mark.parametrize(
    ("name", "tag"),
    [
        ("server.append.handling", "server/append.handling"),
        ("client.a.b.loss", "client.a.b/loss"),
        ("client.learner.stage.learn_s", "client.learner/stage.learn_s"),
        ("notebook", None),
    ],
)
def test_tags_group_by_instance(name: str, tag: str | None) -> None:
    assert tag_of(name) == tag
