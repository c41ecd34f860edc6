"""What a result says of its machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from drlnet.metrics import host
from drlnet.metrics.host import cache_bytes, host_facts, source_commit


def test_caches_grow_with_their_level() -> None:
    caches = cache_bytes()
    assert all(name.startswith("L") and size > 0 for name, size in caches.items())
    sizes = [caches[name] for name in sorted(caches)]
    assert sizes == sorted(sizes)


def test_a_cache_of_unknown_size_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index, facts in enumerate(
        (
            {"type": "Data", "level": "1", "size": "48K"},
            {"type": "Unified", "level": "2"},
            {"type": "Unified", "level": "3", "size": ""},
        )
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in facts.items():
            (folder / name).write_text(f"{text}\n")
    monkeypatch.setattr(host, "_CACHES", tmp_path)
    assert cache_bytes() == {"L1": 48 << 10}


def test_the_commit_is_that_of_the_checkout_and_says_when_the_code_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "drlnet" / "metrics" / "host.py"
    module.parent.mkdir(parents=True)
    (tmp_path / "native").mkdir()
    module.touch()
    monkeypatch.setattr(host, "__file__", str(module))
    assert source_commit() is None  # installed

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        run = subprocess.run(
            ["git", "-C", tmp_path, *who, *words], capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "all")
    commit = git("rev-parse", "--short=7", "HEAD")
    assert source_commit() == commit
    (tmp_path / "result.json").touch()
    assert source_commit() == commit
    module.write_text("changed")
    assert source_commit() == f"{commit}, changed"
    git("checkout", "-q", "--", ".")
    (tmp_path / "native" / "new.cc").touch()
    assert source_commit() == f"{commit}, changed"
    monkeypatch.setenv("PATH", "")
    assert source_commit() is None


def test_facts_name_the_caches() -> None:
    facts = host_facts()
    for name, size in cache_bytes().items():
        assert facts[f"{name.lower()}_cache_bytes"] == size
