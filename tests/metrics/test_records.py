"""A run's records: each form holds the same figures, and JSON that any tool reads."""

from __future__ import annotations

import json
import math
import struct
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from metrics.readings import busy_server
from tensorboardX.proto.event_pb2 import Event

from drlnet.config import Config, load
from drlnet.errors import ConfigError, RunFolderError
from drlnet.metrics import RunFolder, RunRecords
from drlnet.metrics.curves import curves, tag_of
from drlnet.metrics.plain import plain


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


def config(*sets: str) -> Config:
    return load("CartPole-v1", sets=sets)


def test_every_form_holds_the_reading(tmp_path: Path, reading: Mapping[str, Any]) -> None:
    folder = RunFolder(tmp_path)
    records = RunRecords(folder, config("run.record=all"))
    learner = {"env_steps": 20, "loss": math.nan, "learner_steps": 7}
    records.add(learner, reading, 1000.0)
    records.add({**learner, "env_steps": 40}, reading, 1002.0)
    records.close()

    lines = list(folder.readings())
    assert [line["role"] for line in lines] == ["learner", "server"] * 2
    assert lines[0]["loss"] is None
    assert lines[0]["time"] == lines[1]["time"] == 1000.0
    assert lines[1]["table.replay.items_drawn"] == reading["table.replay.items_drawn"]
    kept, exact = lines[1]["server.append.handling"], reading["server.append.handling"]
    assert kept["count"] == exact.count
    assert kept["p999_us"] == pytest.approx(exact.percentile_us(0.999), rel=1e-5)

    latency = json.loads(folder.latency_path.read_text())["server.append.handling"]
    assert [tuple(bucket) for bucket in latency["buckets"]] == list(exact.buckets)

    events = list(events_in(folder.tensorboard_path))[-2:]
    assert [event.step for event in events] == [20, 40]
    assert events[0].wall_time == 1000.0
    scalars = {value.tag: value.simple_value for value in events[0].summary.value}
    assert scalars["client.learner/loss"] == 0.5
    assert scalars["table.replay/items_drawn"] == reading["table.replay.items_drawn"]
    assert scalars["server/append.handling.p99_us"] == pytest.approx(exact.percentile_us(0.99))
    assert not any("my own" in tag for tag in scalars)


def test_seconds_of_days_keep_their_thousandths() -> None:
    assert plain({"server.busy_s": 123456.7891, "loss": 1 / 3, "rate": math.inf}) == {
        "server.busy_s": 123456.789, "loss": 0.333333, "rate": None,
    }  # fmt: skip


def test_the_newest_reading_has_the_newest_evaluation(
    tmp_path: Path, reading: Mapping[str, Any]
) -> None:
    folder = RunFolder(tmp_path)
    records = RunRecords(folder, config("run.sinks=[]"))
    for t in (0, 100, 101):
        look = {"eval_learner_steps": t, "eval_return_best": 5.0 * t}
        records.add({"env_steps": t, "loss": 0.5 + t, **look}, reading, 1e9 + t)
    newest = folder.last_reading("learner")  # the run goes on
    assert (newest["role"], newest["time"]) == ("learner", 1e9 + 101)
    assert (newest["eval_return_best"], newest["env_steps"], newest["loss"]) == (505.0, 101, 100.5)


def test_the_last_reading_is_whole(tmp_path: Path, reading: Mapping[str, Any]) -> None:
    folder = RunFolder(tmp_path)
    records = RunRecords(folder, config("run.sinks=[]"))
    for t in (0, 1, 2):
        told = {**reading, **actors(1, t)}
        records.add({"env_steps": t}, told, 1e9 + t, last=t == 2)
        newest = list(folder.readings())[-1]
        assert newest["client.actor-0.stage.env_s"] == (0.0, 0.0, 0.6)[t]
    records.close()
    assert len(list(folder.readings())) == 6


def test_a_clock_that_is_set_back_keeps_nothing_from_the_records(
    tmp_path: Path, reading: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, passed = RunFolder(tmp_path), iter(range(5))
    monkeypatch.setattr("time.monotonic", lambda: float(next(passed)))
    records = RunRecords(folder, config("run.sinks=[]"))
    for now in (9000.0, 9001.0, 5400.0, 5401.0, 5402.0):
        monkeypatch.setattr("time.time", lambda now=now: now)
        records.add({"env_steps": 1}, reading)
    assert [one["time"] for one in folder.readings()][1::2] == [9000, 9001, 5400, 5401, 5402]


def actors(count: int, t: int) -> dict[str, Any]:
    """What that many actors report, and what the server knows of their sessions, at second t."""
    figures = {"env_steps": 900 * t, "env_steps_per_s": 900.0 + t % 7, "episodes": 9 * t}
    figures |= {"return_mean": 20.0 + t % 11, "policy_lag": t % 3, "epsilon_min": 0.01}
    figures |= {"stage.env_s": 0.3 * t, "cpu_s": 0.9 * t, "pid": 4711}
    traffic = {f"{what}_{way}": 31 * t for what in ("frames", "bytes") for way in ("sent",
               "received")}  # fmt: skip
    return {
        f"{side}.actor-{index}.{name}": value
        for index in range(count)
        for side, values in (("client", figures | traffic), ("peer", {**traffic, "silent_s": 0.1}))
        for name, value in values.items()
    }


def test_a_day_of_eight_actors_stays_under_50_megabytes(
    tmp_path: Path, reading: Mapping[str, Any]
) -> None:
    """Reported each second: a day costs what the second half hour does, 48 times."""
    folder = RunFolder(tmp_path)
    records = RunRecords(folder, config("run.sinks=[]"))
    size_at: dict[int, int] = {}
    for t in range(3600):
        counters = {name: t * 97 + i for i, name in enumerate(reading) if name.startswith("table")}
        learner = {"env_steps": 900 * t, "learner_steps": 90 * t, "loss": 1.0 / (1 + t)}
        learner |= {"eval_return": t % 500, "eval_learner_steps": 90 * (t // 5 * 5)}
        records.add(learner, {**reading, **counters, **actors(8, t)}, 1e9 + t)
        size_at[t] = folder.metrics_path.stat().st_size
    records.close()
    assert 48 * (size_at[3599] - size_at[1799]) < 50e6

    lines = list(folder.readings())
    servers = [line for line in lines if line["role"] == "server"]
    assert max(b["time"] - a["time"] for a, b in pairwise(servers)) <= 10
    assert servers[-1]["time"] == 1e9 + 3599
    assert servers[-1]["client.actor-7.stage.env_s"] == pytest.approx(0.3 * 3599)  # whole again
    for line in servers:  # of what is drawn, every line tells the newest
        t = round(line["time"] - 1e9)
        assert line["client.actor-7.env_steps"] == 900 * t
        assert line["table.replay.env_steps"] == t * 97 + list(reading).index(
            "table.replay.env_steps"
        )
    newest = folder.last_reading("learner")
    assert newest["loss"] == pytest.approx(1 / 3600, rel=1e-5)
    looks = {line["eval_learner_steps"] for line in lines if line["role"] == "learner"}
    assert looks == {90 * t for t in range(0, 3600, 5)}  # no evaluation is passed over


def test_curves_have_stable_names(reading: Mapping[str, Any]) -> None:
    learner = {"env_steps": 40, "loss": 0.5, "entropy_of_mine": 2.0, "role": "learner"}
    few = curves(learner, {**reading, **actors(1, 3)})
    many = curves(learner, {**reading, **actors(8, 3)})
    assert few.keys() == many.keys()
    assert 10 < len(many) <= 25
    assert many["actors/env_steps_per_s"] == 8 * few["actors/env_steps_per_s"]
    assert many["actors/return_mean"] == few["actors/return_mean"] == 23.0
    assert many["learner/entropy_of_mine"] == 2.0
    assert many["server/append_p99_us"] > 0


def test_events_hold_curves_and_the_settings(tmp_path: Path, reading: Mapping[str, Any]) -> None:
    folder = RunFolder(tmp_path)
    records = RunRecords(folder, config("algo.gamma=0.9"))
    records.add({"env_steps": 20, "eval_return": 9.0}, reading)
    records.close()
    *settings, event = events_in(folder.tensorboard_path)
    tags = {value.tag for value in event.summary.value}
    assert "eval/return" in tags and not any("client" in tag for tag in tags)
    (session,) = [
        value.metadata.plugin_data.content
        for one in settings
        for value in one.summary.value
        if value.tag == "_hparams_/session_start_info"
    ]
    assert b"algo.gamma" in session


def test_sinks_can_be_left_out(tmp_path: Path, reading: Mapping[str, Any]) -> None:
    folder = RunFolder(tmp_path)
    records = RunRecords(folder, config("run.sinks=[]"))
    records.add({"env_steps": 1}, reading)
    records.close()
    assert not folder.tensorboard_path.exists()
    assert folder.latency_path.exists()


def test_a_setting_of_old_runs_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[run]\ntensorboard = false\n")
    assert load(file=file).run.sinks == ()
    file.write_text("[run]\ntensorboard = true\n")
    assert load(file=file).run.sinks == ("tensorboard",)


def test_a_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    monkeypatch.setattr("sys.path_importer_cache", {})
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(ConfigError) as caught:
        RunRecords(RunFolder(tmp_path), config("run.sinks=['wandb']"))
    assert (caught.value.cause, caught.value.remedy) == (
        "run.sinks: wandb is not installed",
        "pip install wandb",
    )


def test_wandb_has_the_curves(
    tmp_path: Path, reading: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    records = RunRecords(RunFolder(tmp_path), config("run.sinks=['wandb']"))
    records.add({"env_steps": 20, "eval_return": 9.0}, reading, 1000.0)
    records.close()
    assert records.failure is None
    (kept,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    data = kept.read_bytes()
    assert b"eval/return" in data and b"algo.gamma" in data


def test_mlflow_has_the_curves(
    tmp_path: Path, reading: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/tracking.db")
    records = RunRecords(RunFolder(tmp_path), config("run.sinks=['mlflow']"))
    records.add({"env_steps": 20, "eval_return": 9.0}, reading, 1000.0)
    records.close()
    assert records.failure is None
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("CartPole-v1")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["eval/return"] == 9.0
    assert run.data.params["env.id"] == "CartPole-v1"


def test_without_a_reading_nothing_is_left(tmp_path: Path) -> None:
    RunRecords(RunFolder(tmp_path), config()).close()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_gone(tmp_path: Path, reading: Mapping[str, Any]) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    records = RunRecords(RunFolder(blocked), config())
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
