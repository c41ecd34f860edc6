"""Options that would do nothing are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from system.command import finished

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
    tmp_path: Path, args: list[str], place: str
) -> None:
    ended = finished(tmp_path, *args, "--eal", "-m 1024")
    assert ended.popen.returncode == ConfigError.exit_code, ended.text()
    assert f"error: --eal is for DPDK, which {place} does without" in ended.err.decode()
    assert "  try: leave it out" in ended.err.decode()
    assert not list(tmp_path.iterdir())
