"""Key files: the identity of a server, and the roles of its clients (`drlnet keygen`).

A file is a first line that says whose it is, and lines of a name and 64 hexadecimal digits. That of
a role has its own secret and the server's public key. A server's has its secret and the public keys
of the roles, and behind these the former ones for as long as they are still good.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drlnet.errors import ConfigError, cannot_write

KEY_VARIABLE = "DRLNET_KEY_FILE"  # a file, or the folder that keygen filled
ROLES = ("viewer", "actor", "learner")  # each may what those before it may
SERVER = "server"
_KEY_BYTES = 32
_FINGERPRINT_BYTES = 16
_REMEDY = "make it anew with `drlnet keygen DIR`"


@dataclass(frozen=True)
class _KeyFile:
    owner: str
    lines: Sequence[tuple[str, bytes]]


def key_path(given: str | Path, owner: str) -> Path:
    """The key file of `owner` (a role, or "server"): the file itself, or its own of a folder.

    Errors: ConfigError for a path that this user may not look at.
    """
    path = Path(given)
    try:
        return path / f"{owner}.key" if path.is_dir() else path
    except OSError as error:
        raise _unreadable(path, error) from error


def owner_of(role: str) -> str:
    """Whose key file a role of a run uses."""
    return {SERVER: SERVER, "shard": SERVER, "actor": "actor"}.get(role, ROLES[-1])


def key_text(given: str | Path, owner: str) -> str:
    """The key file of `owner`, to be carried to another machine.

    Errors: ConfigError for a file that cannot be read, is none, or has another owner.
    """
    path = key_path(given, owner)
    found = _read(path)
    if found.owner != owner:
        raise ConfigError(
            f"{path} is the key of the {found.owner}; the {owner} has its own",
            "give --key the folder that `drlnet keygen` has filled",
        )
    return path.read_text(encoding="ascii")


def client_key(given: str | Path | None) -> bytes:
    """A role's secret and the server's public key, out of a file, or a folder's learner.key.

    given: None for what DRLNET_KEY_FILE names; without that there is none: b"".
    Errors: ConfigError for a file that cannot be read, is none, or is a server's.
    """
    given = given or os.environ.get(KEY_VARIABLE)
    if not given:
        return b""
    path = key_path(given, ROLES[-1])
    found = _read(path)
    if found.owner == SERVER:
        raise ConfigError(
            f"{path} is the server's own key",
            "give --key the file of a role: actor, learner, viewer",
        )
    _expect(path, found, ["secret", SERVER])
    return b"".join(key for _, key in found.lines)


def server_keys() -> list[bytes]:
    """Reads the identities in the server's file that DRLNET_KEY_FILE names, the newest first:
    of each its secret, and the public keys of the roles; [] where it names none.

    Errors: ConfigError, see client_key.
    """
    given = os.environ.get(KEY_VARIABLE)
    if not given:
        return []
    path = key_path(given, SERVER)
    found = _read(path)
    if found.owner != SERVER:
        raise ConfigError(
            f"{path} is the key of the role {found.owner}; a server wants server.key",
            "give --key server.key, or the folder that `drlnet keygen` has filled",
        )
    return [b"".join(keys) for keys in _identities(path, found)]


def joining_key(identities: Sequence[bytes]) -> bytes:
    """What a server's process joins another of the same server by, of server_keys(); b"" of none.

    It proves that it is the server: the one that it joins knows its own key.
    """
    from drlnet import native

    if not identities:
        return b""
    secret = identities[0][:_KEY_BYTES]
    return secret + native.public_key(secret)


def server_fingerprint(owner: str = SERVER) -> str | None:
    """The fingerprint of the server's key, out of `owner`'s key file that DRLNET_KEY_FILE names;
    None where it names none. It is the first 16 bytes of the SHA-256 of the server's public key,
    in hexadecimal.

    Errors: ConfigError, see client_key.
    """
    given = os.environ.get(KEY_VARIABLE)
    return fingerprint_in(key_path(given, owner)) if given else None


def fingerprint_in(path: Path) -> str:
    """The same, out of that file: a server's, or that of a role."""
    from drlnet import native

    found = _read(path)
    if found.owner == SERVER:
        public = native.public_key(_identities(path, found)[0][0])
    else:
        _expect(path, found, ["secret", SERVER])
        public = found.lines[1][1]
    return hashlib.sha256(public).hexdigest()[: 2 * _FINGERPRINT_BYTES]


def make_keys(folder: Path, *, rotate: bool = False) -> list[Path]:
    """Makes a server's identity and a key for each role, in files that this user alone can read.

    rotate: in place of those in `folder`, whose newest the server's file keeps as the former ones,
    so that clients with either are let in. Errors: ConfigError where there are keys, or (rotate)
    none, or the folder cannot be written.
    """
    from tempfile import TemporaryDirectory

    from drlnet import native  # settings are read without these

    path = folder / f"{SERVER}.key"
    try:
        there = [one for owner in (SERVER, *ROLES) if (one := folder / f"{owner}.key").exists()]
    except OSError as error:
        raise cannot_write(folder, error, "choose another folder") from error
    if rotate and path not in there:
        raise ConfigError(f"{path} does not exist", "leave out --rotate to make the first keys")
    if there and not rotate:
        raise ConfigError(
            f"{there[0]} is there already",
            "replace the keys with --rotate, or choose another folder"
            if path in there
            else "choose another folder",
        )
    former = _in_use(folder, _identities(path, _read(path))) if rotate else []
    secrets = {owner: os.urandom(_KEY_BYTES) for owner in (SERVER, *ROLES)}
    public = {owner: native.public_key(secret) for owner, secret in secrets.items()}
    identities = [[secrets[SERVER], *(public[role] for role in ROLES)], *former]
    names = ["secret", *ROLES]
    # The server's first: it has the former keys, too, and so knows each of the others, replaced or
    # not yet.
    files = {SERVER: [(n, key) for keys in identities for n, key in zip(names, keys, strict=True)]}
    files |= {role: [("secret", secrets[role]), (SERVER, public[SERVER])] for role in ROLES}
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".keygen-", dir=folder) as drafts:
            # All before the first is replaced: a disk may be full.
            paths = [_write(Path(drafts), owner, lines) for owner, lines in files.items()]
            return [path.replace(folder / path.name) for path in paths]
    except OSError as error:
        raise cannot_write(folder, error, "choose another folder") from error


def _in_use(folder: Path, identities: list[list[bytes]]) -> list[list[bytes]]:
    """The identity that the roles' files are of, in a list: where a rotation was cut short, not the
    newest. The learner's file is replaced last."""
    from drlnet import native

    try:
        server = client_key(folder / f"{ROLES[-1]}.key")[_KEY_BYTES:]
    except ConfigError:  # it was lost; a rotation makes another
        return identities[:1]
    return [one for one in identities if native.public_key(one[0]) == server] or identities[:1]


def _write(folder: Path, owner: str, lines: Sequence[tuple[str, bytes]]) -> Path:
    path = folder / f"{owner}.key"
    text = f"drlnet {owner} key 1\n" + "".join(f"{name} {key.hex()}\n" for name, key in lines)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(text)
    return path


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot read the key file {path}: {error.strerror}",
        f"correct --key or {KEY_VARIABLE}; `drlnet keygen DIR` makes keys",
    )


def _read(path: Path) -> _KeyFile:
    try:
        text = path.read_text(encoding="ascii")
        open_to = path.stat().st_mode & 0o077
    except OSError as error:
        raise _unreadable(path, error) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not a key file", _REMEDY) from error
    first, *rest = text.splitlines() or [""]
    words = first.split()
    if words[:1] != ["drlnet"] or words[2:] != ["key", "1"] or words[1] not in (SERVER, *ROLES):
        raise ConfigError(f"{path} is not a key file", _REMEDY)
    if open_to:
        raise ConfigError(
            f"{path} can be read or changed by other users",
            f"chmod 600 {path}, if none of them did",
        )
    try:
        lines = [(line.split()[0], bytes.fromhex(line.split()[1])) for line in rest]
    except (IndexError, ValueError) as error:
        raise ConfigError(f"{path}: a line is not a name and a key", _REMEDY) from error
    return _KeyFile(words[1], lines)


def _expect(path: Path, found: _KeyFile, names: Sequence[str]) -> None:
    if [name for name, _ in found.lines] != [*names] or any(
        len(key) != _KEY_BYTES for _, key in found.lines
    ):
        raise ConfigError(f"{path} does not have the keys of the {found.owner}", _REMEDY)


def _identities(path: Path, found: _KeyFile) -> list[list[bytes]]:
    each = 1 + len(ROLES)
    count = 2 if len(found.lines) > each else 1
    _expect(path, found, ["secret", *ROLES] * count)
    return [[key for _, key in found.lines[at * each : (at + 1) * each]] for at in range(count)]
