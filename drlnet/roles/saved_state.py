"""A server's state on disk, looked at without going on from it: nothing of it is changed."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drlnet import __version__, native
from drlnet.client import Client
from drlnet.roles.serve import looping

_LISTEN = ("udp://127.0.0.1:0",)
_MOST_STEM_BYTES = 200  # of a file's name: file systems take 255, the ending included


@dataclass(frozen=True)
class SavedTable:
    """A table of a state, summed over shards. capacity, rows: in rows; items: those to be drawn."""

    name: str
    capacity: int
    rows: int
    items: int
    env_steps: int


@dataclass(frozen=True)
class SavedState:
    """What the newest whole records of a state say. disk_bytes: of its files; damage: lines."""

    shards: int
    starts: int
    params_version: int
    disk_bytes: int
    tables: list[SavedTable]
    damage: list[str]


def read_saved(folder: Path) -> SavedState:
    """Reads the records of a state, not its rows.

    Raises ConfigError where the folder has no state, or a server uses it, StateDamaged where too
    little is whole to go on from.
    """
    said = native.read_state(str(folder))
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for shard in said["shards"]:
        for table in shard["tables"]:
            parts.setdefault(table["name"], []).append(table)
    return SavedState(
        shards=len(said["shards"]),
        starts=said["incarnation"],
        params_version=max(shard["params_version"] for shard in said["shards"]),
        disk_bytes=sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        tables=[
            SavedTable(
                name,
                capacity=of_it[0]["capacity"],
                rows=sum(part["rows"] for part in of_it),
                items=sum(part["items"] for part in of_it),
                env_steps=sum(part["env_steps"] for part in of_it),
            )
            for name, of_it in parts.items()
        ],
        damage=_of_shards([shard["notes"] for shard in said["shards"]]),
    )


def damage_of(folder: Path) -> list[str]:
    """Lines that name what is damaged of a state, and what a server would do about it.

    Reads all that a server would, into memory as it does. Raises as read_saved() does.
    """
    return _of_shards([server.state_notes for server in _servers(folder)])


@contextmanager
def answering(folder: Path) -> Iterator[tuple[Client, list[str]]]:
    """A client of a server that was made of a state and listens to it alone; damage_of() it.

    Raises as read_saved() does.
    """
    servers = _servers(folder)
    damage = _of_shards([server.state_notes for server in servers])
    with looping(servers), Client(servers[0].addresses[0], name="export") as client:
        yield client, damage


def export_tables(folder: Path, out: Path) -> tuple[dict[Path, int], list[str]]:
    """Writes the items of each table to OUT/TABLE.npz (see Table.export).

    Returns the number of items in each file, and damage_of() the state. Raises as read_saved()
    does, and ConfigError where OUT cannot be written.
    """
    written: dict[Path, int] = {}
    with answering(folder) as (client, damage):
        for name in client.tables():
            path = _file_of(name, out, written)
            written[path] = client.attach(name).export(path)
    return written, damage


def _file_of(name: str, out: Path, taken: Container[Path]) -> Path:
    """A file for the table of that name, which may have any characters."""
    stem = native.printable(name).replace("/", "-").encode()[:_MOST_STEM_BYTES]
    path = out / f"{stem.decode(errors='ignore')}.npz"
    while path in taken:
        path = path.with_name(f"{path.stem}~.npz")
    return path


def _servers(folder: Path) -> list[native.Server]:
    return native.Server.shards(
        _LISTEN,
        len(native.read_state(str(folder))["shards"]),
        version=__version__,
        state=str(folder),
        read_state_only=True,
        # Whatever the server was allowed whose state it is.
        limits={name: highest for name, _, highest, _ in native.Server.limits()},
    )


def _of_shards(notes: list[list[str]]) -> list[str]:
    return [f"shard-{shard}: {line}" for shard, lines in enumerate(notes) for line in lines]
