"""`drlnet bench compare`, on records of real small measurements."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from system.command import finished

from drlnet.bench.compare import Change, compare, show
from drlnet.bench.engine import Course, Effort
from drlnet.bench.records import Records
from drlnet.bench.samplers import OPS, SUITE, measure_samplers, subjects_of
from drlnet.errors import ConfigError
from drlnet.launch.signals import Stop

Edit = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A record of `drlnet bench sampler`, of four short rounds."""
    with Stop() as stop:
        results = measure_samplers(
            Course(stop, 4, Effort(300, 0.02, 20)),
            subjects_of(["prioritized", "uniform"], [], ["portable"]),
            sizes=[256],
            batch=16,
            distribution="exponential",
        )
    path = tmp_path_factory.mktemp("records") / "sampler.json"
    Records(results.records(SUITE, OPS)).write(path)
    return path


def edited(record: Path, to: Path, edit: Edit) -> Path:
    said = json.loads(record.read_text(encoding="utf-8"))
    edit(said)
    to.write_text(json.dumps(said), encoding="utf-8")
    return to


def slow(said: dict[str, Any]) -> None:
    """Draws of every subject take a hundred times as long; the kernel and a core are others."""
    for one in said["records"]:
        if one["op"] == "draw":
            for each in one["by_round"]:
                each["p50_us"] *= 100
    said["machine"]["kernel"] = "Linux 99"
    said["setup"]["governors"] = ["performance"]


def test_a_record_is_as_itself(record: Path) -> None:
    found = compare(record, record)
    assert len(found.changes) == 4
    assert found.setup == {}
    for one in found.changes:
        assert one.ratio == 1
        assert one.low is not None and one.high is not None
        assert one.low <= 1 <= one.high
        assert one.verdict == ""
    assert compare(record, record) == found, "resampling is seeded"


def test_what_changed_beyond_noise_is_marked(record: Path, tmp_path: Path) -> None:
    slower = edited(record, tmp_path / "b.json", slow)
    found = compare(record, slower)
    assert {(one.op, one.verdict) for one in found.changes} == {("draw", "slower"), ("update", "")}
    assert {one.verdict for one in compare(slower, record).changes} == {"faster", ""}
    assert not any(one.verdict for one in compare(record, slower, "mean_us").changes)
    assert found.setup["machine.kernel"][1] == "Linux 99"
    assert found.setup["setup.governors"][1] == ["performance"]
    file = io.StringIO()
    show(found, "p50_us", file=file)
    text = file.getvalue()
    assert "-> Linux 99" in text
    assert "4 measurements in both: 2 slower, 0 faster, 2 within their noise." in text
    assert max(map(len, text.splitlines())) <= 80


def test_few_rounds_are_not_judged(record: Path, tmp_path: Path) -> None:
    def cut(said: dict[str, Any]) -> None:
        slow(said)
        for one in said["records"]:
            del one["by_round"][2:]

    found = compare(record, edited(record, tmp_path / "b.json", cut))
    assert all(one.low is None and one.verdict == "" for one in found.changes)
    file = io.StringIO()
    show(found, "p50_us", file=file)
    assert "4 of fewer than 3 rounds, not judged." in " ".join(file.getvalue().split())


def test_measurements_of_one_record_alone_are_named(record: Path, tmp_path: Path) -> None:
    def rename(said: dict[str, Any]) -> None:
        said["records"][0]["subject"] = "other"

    found = compare(record, edited(record, tmp_path / "b.json", rename))
    assert len(found.changes) == 3
    assert [key[0] for key in found.only_after] == ["other"]
    assert len(found.only_before) == 1


def test_a_verdict_takes_the_whole_interval() -> None:
    assert Change("s", "o", "w", 1.0, 2.0, 2.0, 1.5, 2.5).verdict == "slower"
    assert Change("s", "o", "w", 2.0, 1.0, 0.5, 0.4, 0.9).verdict == "faster"
    assert Change("s", "o", "w", 1.0, 2.0, 2.0, 0.9, 2.5).verdict == ""


@pytest.mark.parametrize(
    ("edit", "cause"),
    [
        (lambda said: said["records"].clear(), "holds no records of a benchmark"),
        (lambda said: said["records"][0].pop("by_round"), "does not say what each round measured"),
        (lambda said: said["records"][0].update(suite="paper"), "is of bench paper, sampler"),
    ],
)
def test_refused(record: Path, tmp_path: Path, edit: Edit, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause) as raised:
        compare(record, edited(record, tmp_path / "b.json", edit))
    assert raised.value.remedy


def test_refused_files(record: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        compare(record, tmp_path / "absent.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is not JSON"):
        compare(tmp_path / "bytes.json", record)


def test_the_command(record: Path, tmp_path: Path) -> None:
    slower = edited(record, tmp_path / "b.json", slow)
    ended = finished(tmp_path, "bench", "compare", str(record), str(slower), "--json")
    said = ended.last_json()
    assert [one["verdict"] for one in said["changes"]].count("slower") == 2
    assert said["setup"]["machine.kernel"][1] == "Linux 99"
