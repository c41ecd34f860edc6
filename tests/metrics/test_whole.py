"""Files that are there whole, or as they were before."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlnet.cli.output import require_writable_file
from drlnet.errors import ConfigError
from drlnet.metrics.whole import whole_file, write_whole


def test_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    file, link = tmp_path / "real" / "x.json", tmp_path / "x.json"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link.symlink_to(file)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["real", "x.json", "x.json"]


def test_an_interruption_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), whole_file(tmp_path / "x.json") as file:
        file.write(b"ne")
        raise KeyboardInterrupt
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_what_cannot_be_written_is_said_before_it_is_measured(tmp_path: Path) -> None:
    require_writable_file(None)
    require_writable_file(tmp_path / "new.json")
    require_writable_file(Path("/dev/stdout"))
    with pytest.raises(ConfigError, match="is a folder") as caught:
        require_writable_file(tmp_path)
    assert "--out" in caught.value.remedy
    with pytest.raises(ConfigError, match="cannot write"):
        require_writable_file(Path("/proc/new.json"))
