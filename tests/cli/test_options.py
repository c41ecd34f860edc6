"""Options that would do nothing are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from drlnet.cli.main import app
from drlnet.cli.options import EAL_VARIABLE
from drlnet.errors import ConfigError


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
