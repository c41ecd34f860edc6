"""Names that any client can choose, as commands show them: nothing of them steers a terminal."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from system.command import Command, finished, lines_of_error
from system.stateful import free_address, on_disk, serving, wait_until

from drlnet import Client, Column, Item, View, errors
from drlnet.config import dump, load

NAME = "\x1b[31m\x9b2J\u202eexe\nü/"
SHOWN = "\\x1b[31m\\x9b2J\\u202eexe\\x0aü/"


def fill(client: Client) -> None:
    """Puts the name wherever a client can."""
    about = dict.fromkeys(("name", "env", "algo"), NAME)
    client.put_blob("progress", json.dumps(about).encode())
    settings = dump(load("CartPole-v1")).replace('"CartPole-v1"', json.dumps(NAME))
    client.put_blob("settings", settings.encode())
    for name in (NAME, NAME.replace("/", "-")):  # which are one file's name
        columns, item = {"x": Column("int64")}, Item({"x": View("x")}, boundary="cross")
        table = client.table(name, columns=columns, item=item, capacity=10)
        with table.writer(1) as writer:
            writer.add_items([0], writer.append({"x": [1]}, [True], [True]))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder of a server that is full of such names, and its address."""
    folder, address = tmp_path_factory.mktemp("served"), free_address()
    with serving(folder, address) as server, Client(address, name=NAME) as client:
        fill(client)
        wait_until(lambda: on_disk(client))
        yield folder, address
        assert server.end(signal.SIGTERM) == 0


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with such a server's state, which has ended."""
    folder, address = tmp_path_factory.mktemp("state"), free_address()
    with serving(folder, address) as server:
        with Client(address) as client:
            fill(client)
        assert server.end(signal.SIGTERM) == 0
    return folder


def require_plain(ended: Command) -> str:
    """What the command said, which has nothing but lines of printable characters."""
    said = ended.out.decode() + ended.err.decode()
    assert all(c.isprintable() or c == "\n" for c in said), repr(said)
    return said


def test_stats_shows_them(served: tuple[Path, str]) -> None:
    folder, address = served
    ended = finished(folder, "stats", "--server", address, "--once", "--interval", "0.1")
    assert SHOWN in require_plain(ended)
    assert finished(folder, "stats", "--server", address, "--json").last_json()["run.env"] == SHOWN


def test_an_actor_that_joins_refuses_them(served: tuple[Path, str]) -> None:
    folder, address = served
    ended = finished(folder, "actor", "--server", address, error=errors.ConfigError)
    require_plain(ended)
    first, second = lines_of_error(ended)
    assert first == f"error: env.id = {NAME!r}"
    assert second == "  try: name an environment in printable text"


@pytest.mark.parametrize(
    ("blob", "error"),
    [(b"\xff", errors.ProtocolError), (b"a = [" * 10_000, errors.ConfigError)],
)
def test_settings_that_are_none_are_an_error_in_words(
    served: tuple[Path, str], blob: bytes, error: type[errors.DrlnetError]
) -> None:
    folder, address = served
    with Client(address) as client:
        kept = client.get_blob("settings")
        assert kept is not None
        client.put_blob("settings", blob)
        ended = finished(folder, "actor", "--server", address, error=error)
        client.put_blob("settings", kept[1])
    assert re.match("error: .*(settings|tells of its run)", lines_of_error(ended)[0])


def test_state_shows_them(state: Path) -> None:
    listed = require_plain(finished(state, "state", "ls", "state"))
    assert sum(SHOWN[:-1] in line for line in listed.splitlines()) == 2


def test_state_names_files_without_them(state: Path) -> None:
    ended = finished(state, "state", "export", "state", "--out", "offline")
    require_plain(ended)
    stem = SHOWN.replace("/", "-")
    files = sorted(file.name for file in (state / "offline").iterdir())
    assert files == [f"{stem}.npz", f"{stem}~.npz"]
