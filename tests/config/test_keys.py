"""Key files: what keygen writes, and what is refused of others."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from drlnet import native
from drlnet.config.keys import (
    KEY_VARIABLE,
    ROLES,
    client_key,
    fingerprint_in,
    make_keys,
    server_fingerprint,
    server_keys,
)
from drlnet.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys")
    return tmp_path / "keys"


def identities(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    monkeypatch.setenv(KEY_VARIABLE, str(path))
    return server_keys()


def test_keys_fit_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {path.name for path in folder.iterdir()} == {
        f"{owner}.key" for owner in ("server", "learner", "actor", "viewer")
    }
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    (identity,) = identities(folder, monkeypatch)
    assert identities(folder / "server.key", monkeypatch) == [identity]
    for at, role in enumerate(("viewer", "actor", "learner"), 1):
        key = client_key(folder / f"{role}.key")
        assert native.public_key(key[:32]) == identity[32 * at : 32 * at + 32]
        assert key[32:] == native.public_key(identity[:32])
    assert client_key(folder) == client_key(folder / "learner.key")


def test_every_file_names_the_same_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    public = native.public_key(identities(folder, monkeypatch)[0][:32])
    expected = hashlib.sha256(public).hexdigest()[:32]
    assert {fingerprint_in(path) for path in folder.iterdir()} == {expected}
    assert server_fingerprint() == server_fingerprint("learner") == expected
    make_keys(folder, rotate=True)
    assert (
        {fingerprint_in(path) for path in folder.iterdir()} == {server_fingerprint()} != {expected}
    )
    monkeypatch.delenv(KEY_VARIABLE)
    assert server_fingerprint() is None


def test_no_keys_unless_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    assert client_key(None) == b""
    assert server_keys() == []


def test_new_keys_stand_before_the_former_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = identities(folder, monkeypatch)
    former = client_key(folder / "actor.key")
    make_keys(folder, rotate=True)
    second = identities(folder, monkeypatch)
    assert second[1:] == [first]
    assert second[0] != first
    assert client_key(folder / "actor.key") != former
    make_keys(folder, rotate=True)
    assert identities(folder, monkeypatch)[1:] == second[:1]


@pytest.mark.parametrize(("of", "call"), [(os, "fdopen"), (Path, "replace")])
def test_the_server_knows_each_key_where_a_rotation_is_cut_short(
    folder: Path, monkeypatch: pytest.MonkeyPatch, of: object, call: str
) -> None:
    real, calls = getattr(of, call), []

    def third_fails(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    for _ in "again", "and again":
        with monkeypatch.context() as full, pytest.raises(ConfigError, match="No space left"):
            full.setattr(of, call, third_fails)
            make_keys(folder, rotate=True)
        calls.clear()
        known = {native.public_key(one[:32]) for one in identities(folder, monkeypatch)}
        assert {client_key(folder / f"{role}.key")[32:] for role in ROLES} <= known
        assert len([*folder.iterdir()]) == 1 + len(ROLES)


def test_keys_are_not_overwritten_by_chance(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--rotate"):
        make_keys(folder)
    with pytest.raises(ConfigError, match="does not exist"):
        make_keys(tmp_path / "others", rotate=True)
    (folder / "server.key").unlink()  # it lies on the server's machine
    (folder / "actor.key").unlink()
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ConfigError, match=r"viewer\.key is there already"):
        make_keys(folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == kept


def test_what_is_no_key_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="the server's own key"):
        client_key(folder / "server.key")
    with pytest.raises(ConfigError, match=r"a server wants server\.key"):
        identities(folder / "actor.key", monkeypatch)
    with pytest.raises(ConfigError, match="No such file"):
        client_key(folder / "none.key")
    path = folder / "actor.key"
    text = path.read_text()
    for wrong in ("", "drlnet", "\xe9", text[:-10], text + text, text.replace("secret", "x")):
        path.write_text(wrong, encoding="latin-1")
        with pytest.raises(ConfigError):
            client_key(path)
    path.write_text(text)
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        client_key(path)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Root may enter every folder; the user 65534 only those that others may."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_folder_that_this_user_may_not_enter_is_named(folder: Path) -> None:
    folder.chmod(0)
    with ordinary_user():
        with pytest.raises(ConfigError, match=r"cannot read the key file .*: Permission denied"):
            client_key(folder / "actor.key")
        for rotate in (False, True):
            with pytest.raises(ConfigError, match=r"cannot write .*keys: Permission denied"):
                make_keys(folder, rotate=rotate)
    folder.chmod(0o700)
