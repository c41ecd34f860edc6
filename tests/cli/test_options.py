"""Options that would do nothing are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from drlnet.cli.main import app
from drlnet.cli.options import EAL_VARIABLE
from drlnet.config import load
from drlnet.errors import ConfigError
from drlnet.metrics import RunFolder


@pytest.mark.parametrize(
    ("args", "place"),
    [
        (["run", "CartPole-v1"], "udp"),
        (["serve"], "udp://127.0.0.1:7447"),
        (["learn", "CartPole-v1"], "udp://127.0.0.1:7447"),
        (["actor", "CartPole-v1"], "udp://127.0.0.1:7447"),
        (["stats"], "udp://127.0.0.1:7447"),
        (["bench", "transport", "--transports", "udp"], "udp"),
        (["bench", "paper", "--role", "learner"], "udp://127.0.0.1:7447"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_arguments_for_dpdk_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(EAL_VARIABLE, "")  # put back afterwards: the option sets it
    error = CliRunner().invoke(app, [*args, "--eal", "-m 1024"]).exception
    assert isinstance(error, ConfigError)
    assert error.cause == f"--eal is for DPDK, which {place} does without"
    assert error.remedy.startswith("leave it out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("role", ["run", "learn"])
def test_help_config_of_a_run_that_goes_on_shows_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    flags = {"run.folder": str(tmp_path / "mine"), "algo.n_step": 7}
    RunFolder.create(load("CartPole-v1", flags=flags))
    monkeypatch.chdir(tmp_path)
    args = [role, "--resume", "mine", "--set", "replay.batch_size=64", "--help-config"]
    monkeypatch.setattr("sys.argv", ["drlnet", *args])
    said = CliRunner().invoke(app, args, catch_exceptions=False).output
    shown = {tuple(line.split()[:3]) for line in said.splitlines()}
    assert {
        ("env.id", '"CartPole-v1"', "file"),
        ("algo.n_step", "7", "file"),
        ("replay.batch_size", "64", "--set"),
        ("run.resume", "true", "flag"),
    } <= shown
    assert "Without ENV" not in said
