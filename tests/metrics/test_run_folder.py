"""The run's folder: what is written is read back, another run's folder is left alone."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drlnet.cli.main import app
from drlnet.config import Config, load, load_server
from drlnet.config.keys import KEY_VARIABLE
from drlnet.errors import ConfigError, DrlnetError, Insecure, RunFolderError
from drlnet.metrics import EvalSummary, RunFolder, RunResult, host_facts, seconds_since_start


def config_in(path: Path) -> Config:
    return load("Unregistered-v0", flags={"run.folder": str(path), "run.seed": 7})


def test_folder_holds_config_facts_and_metrics(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    folder = RunFolder.create(config)
    assert folder.read_config() == config
    facts = json.loads(folder.facts_path.read_text())
    assert facts["seed"] == 7
    assert {"cpu", "cores", "memory_bytes", "kernel", "python", "torch"} <= facts["host"].keys()
    folder.record({"loss": 0.5})
    folder.record({"loss": 0.25})
    assert [reading["loss"] for reading in folder.readings()] == [0.5, 0.25]


def test_same_config_takes_the_folder_over_another_does_not(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    RunFolder.create(config)
    RunFolder.create(config)
    other = replace(config, run=replace(config.run, seed=8))
    with pytest.raises(RunFolderError, match="already holds a run"):
        RunFolder.create(other)


def test_folder_names_are_not_taken_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = RunFolder.create(Config())
    second = RunFolder.create(Config())
    assert first.path != second.path
    assert first.path.parent == tmp_path / "runs"


def test_a_run_with_keys_is_read_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "keys")
    flags = {"server.listen": ["udp://0.0.0.0:7447"], "run.folder": str(tmp_path / "run")}
    config = load("CartPole-v1", flags=flags)
    folder = RunFolder.create(config)
    folder.checkpoint_path.touch()
    monkeypatch.delenv(KEY_VARIABLE)
    assert folder.read_config() == config
    ended = CliRunner().invoke(app, ["eval", str(folder.path)])
    assert isinstance(ended.exception, DrlnetError)
    assert str(folder.checkpoint_path) in ended.exception.cause  # which is empty
    with pytest.raises(Insecure):
        load_server(folder.config_path)


def test_an_unused_folder_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for config in (Config(), config_in(tmp_path / "run")):
        folder = RunFolder.create(config)
        folder.discard_unused()
        assert not folder.path.exists()


@pytest.mark.parametrize("unwritten", ["config.toml", "facts.json"])
def test_a_folder_that_cannot_be_filled_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unwritten: str
) -> None:
    write_text = Path.write_text

    def full(path: Path, words: str, encoding: str) -> int:
        if path.name == unwritten:
            path.touch()
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_text(path, words, encoding)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Path, "write_text", full)
    (tmp_path / "given").mkdir()
    for config in (Config(), config_in(tmp_path / "run"), config_in(tmp_path / "given")):
        with pytest.raises(RunFolderError, match="No space left"):
            RunFolder.create(config)
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "given"}
    assert not list((tmp_path / "runs").iterdir()) and not list((tmp_path / "given").iterdir())


@pytest.mark.parametrize("value", ["none", "1979-05-27", "{ x = 07:32:00 }"])
def test_what_a_config_cannot_hold_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    config = load("Unregistered-v0", sets=[f"env.kwargs.odd={value}"])
    with pytest.raises(ConfigError, match=r"env\.kwargs\.odd"):
        RunFolder.create(config)
    assert not list(tmp_path.iterdir())


def test_a_folder_whose_name_is_not_utf8_is_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    odd.mkdir()
    monkeypatch.chdir(odd)
    with pytest.raises(RunFolderError, match="is not UTF-8"):
        RunFolder.create(Config())
    assert not list((odd / "runs").iterdir())


def test_a_full_disk_leaves_a_run_that_would_go_on_as_it_was(tmp_path: Path) -> None:
    """A limit on a file's size stands for the disk."""
    config = config_in(tmp_path / "run")
    folder = RunFolder.create(config)
    folder.learner_path.touch()
    folder.write_result('{"stopped": "budget"}')
    before = {path.name: path.read_bytes() for path in folder.path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(RunFolderError, match="too large") as caught:
            RunFolder.reopen(replace(config, run=replace(config.run, resume=True)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.remedy == "make room or check rights"  # another folder has no learner
    assert {path.name: path.read_bytes() for path in folder.path.iterdir()} == before


def test_what_is_in_use_or_another_s_is_not_taken_back(tmp_path: Path) -> None:
    config = config_in(tmp_path / "run")
    RunFolder.create(config)
    RunFolder.create(config).discard_unused()  # made by the process that planned the run
    assert (tmp_path / "run" / "config.toml").is_file()

    recorded = RunFolder.create(config_in(tmp_path / "recorded"))
    recorded.record({"loss": 1})
    recorded.discard_unused()
    assert len(list(recorded.readings())) == 1

    kept = RunFolder.create(config_in(tmp_path / "kept"))
    kept.checkpoint_path.write_bytes(b"params")
    kept.discard_unused()
    assert kept.config_path.is_file()

    (tmp_path / "given").mkdir()
    RunFolder.create(config_in(tmp_path / "given")).discard_unused()
    assert not list((tmp_path / "given").iterdir())


def test_a_metrics_file_cut_short_ends_at_its_last_whole_line(tmp_path: Path) -> None:
    folder = RunFolder.create(config_in(tmp_path / "run"))
    folder.record({"loss": 1})
    with folder.metrics_path.open("a") as file:
        file.write('{"loss": 2')
    assert [reading["loss"] for reading in folder.readings()] == [1]


@pytest.mark.parametrize("again", [False, True])
def test_a_run_that_goes_on_appends_to_whole_lines(tmp_path: Path, again: bool) -> None:
    config = config_in(tmp_path / "run")
    for whole in ([], [{"loss": 1}, {"loss": 2}]):
        begun = RunFolder.create(config)
        begun.learner_path.touch()
        for values in whole:
            begun.record(values)
        with begun.metrics_path.open("a") as file:
            file.write('{"time": 3, "lo')
        folder = RunFolder.reopen(config, again=again)
        folder.record({"loss": 4})
        assert [one["loss"] for one in folder.readings()][:-1] == [one["loss"] for one in whole]
        folder.metrics_path.write_bytes(b"")


def test_a_line_of_a_thousand_actors_hides_neither_learner_nor_line_s_end(tmp_path: Path) -> None:
    begun = RunFolder.create(config_in(tmp_path / "run"))
    begun.learner_path.touch()
    begun.write_result('{"stopped": "budget"}')
    begun.record({"role": "learner", "learner_steps": 1, "loss": 0.5})
    begun.record({"changes": "learner", "learner_steps": 2})
    server = {"role": "server", "client.actor-0.env": "x" * 1_200_000}
    begun.record(server)
    whole = begun.metrics_path.read_bytes()
    begun.metrics_path.write_bytes(whole + whole[-1_200_000:-10])
    folder = RunFolder.reopen(config_in(tmp_path / "run"))
    assert folder.metrics_path.read_bytes() == whole
    newest = folder.last_reading("learner")
    assert (newest["learner_steps"], newest["loss"]) == (2, 0.5)
    folder.record({"role": "learner", "learner_steps": 3})
    folder.record(server)
    assert not folder.put_back() and not folder.read_result()
    assert len(list(folder.readings())) == 5


def test_open_wants_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"config\.toml is missing"):
        RunFolder.open(tmp_path)
    RunFolder.create(config_in(tmp_path / "run"))
    with pytest.raises(RunFolderError, match=r"checkpoint\.safetensors is missing"):
        RunFolder.open(tmp_path / "run")


def test_result_is_one_line_of_json() -> None:
    summary = EvalSummary.of([1.0, 3.0])
    assert (summary.mean, summary.std, summary.episodes) == (2.0, 1.0, 2)
    result = RunResult("E-v0", 1, math.nan, 0.0, 0.0, 0, 0, 0, 1.5, 10, 2, "runs/x", "goal")
    line = replace(result, env_settings={"kwargs": {"limits": [math.inf, 1]}}).to_json()
    assert "\n" not in line
    told = json.loads(line, parse_constant=pytest.fail)  # Infinity, which strict parsers refuse
    assert told["eval_return_mean"] is None
    assert told["env_settings"] == {"kwargs": {"limits": [None, 1]}}
    assert told["wall_clock_s"] == 1.5


@pytest.mark.parametrize("odd", [-math.inf, math.nan])
def test_an_infinite_return_or_nan_leaves_a_result(odd: float) -> None:
    summary = EvalSummary.of([odd, 3.0, 1.0])
    assert str(summary.mean) == str(odd) and math.isnan(summary.std)
    assert summary.episodes == 3
    assert EvalSummary.of([1e308, 1e308]).mean == math.inf  # the sum is too large


def test_start_time_and_host_are_read() -> None:
    assert 0 < seconds_since_start() < 3600
    assert host_facts()["cores"]
