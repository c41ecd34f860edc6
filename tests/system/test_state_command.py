"""`drlnet state`, and a server's state on disks that take nothing more (help operations)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from system.command import Command, finished, lines_of_error
from system.stateful import STREAMS, Filling, items_of, on_disk, open_table, serving, wait_until

from drlnet import errors
from drlnet.client import Client, Column, Item, View

ANY_PORT = "udp://127.0.0.1:0"


def address_of(server: Command) -> str:
    return re.findall(r"udp://127[0-9.:]+", server.out.decode())[0]


@contextmanager
def filled(folder: Path, steps: int, *args: str) -> Iterator[tuple[Client, Command]]:
    """A server with a table and params, all of it on disk."""
    with serving(folder, ANY_PORT, *args) as server, Client(address_of(server)) as client:
        filling = Filling(open_table(client))
        filling.append(steps)
        filling.writer.flush()
        client.publish(b"params")
        wait_until(lambda: on_disk(client))
        yield client, server


@pytest.mark.parametrize("shards", [1, 2])
def test_a_state_is_listed_and_exported(tmp_path: Path, shards: int) -> None:
    with filled(tmp_path, 300, "--shards", str(shards)) as (client, server):
        stats = client.stats()
        held, steps = stats["table.replay.live_items"], stats["table.replay.env_steps"]
        busy = finished(tmp_path, "state", "ls", "state", error=errors.ConfigError)
        assert "another process uses the state" in lines_of_error(busy)[0]
        if shards == 1:
            expected = items_of(open_table(client))
        assert server.end(signal.SIGTERM) == 0
    listed = finished(tmp_path, "state", "ls", "state", "--json").last_json()
    assert (listed["shards"], listed["starts"], listed["params_version"]) == (shards, 1, 1)
    assert listed["damage"] == [] and listed["disk_bytes"] > 100 * STREAMS * 300
    assert listed["tables"] == [
        {
            **{"name": "replay", "capacity": 5000, "rows": STREAMS * 300},
            **{"items": held, "env_steps": steps},
        }
    ]
    finished(tmp_path, "state", "check", "state")
    ended = finished(tmp_path, "state", "export", "state", "--out", "offline", "--json")
    assert ended.last_json() == {"files": {"offline/replay.npz": held}, "damage": []}
    arrays = np.load(tmp_path / "offline" / "replay.npz")
    assert len(arrays["keys"]) == held
    if shards == 1:
        numbers = arrays["view.x"][:, 1].tolist()
        found = dict(zip(numbers, arrays["priorities"].tolist(), strict=True))
        assert found == {number: item[0] for number, item in expected.items()}
    # Nothing of it has changed: the server goes on as if it had not been looked at.
    again = finished(tmp_path, "state", "ls", "state", "--json").last_json()
    assert again == listed


def test_what_is_damaged_is_named(tmp_path: Path) -> None:
    with filled(tmp_path, 3000) as (_, server):
        assert server.end(signal.SIGTERM) == 0
    rows = next((tmp_path / "state" / "shard-0").glob("rows-*"))
    bytes_ = bytearray(rows.read_bytes())
    bytes_[len(bytes_) - 1000] ^= 4
    rows.write_bytes(bytes_)
    checked = finished(tmp_path, "state", "check", "state", error=errors.StateDamaged)
    assert f"{rows.name}, byte " in checked.out.decode()
    assert len(lines_of_error(checked)) == 2 and rows.name in lines_of_error(checked)[0]
    exported = finished(tmp_path, "state", "export", "state", "--json")
    assert rows.name in exported.last_json()["damage"][0]
    with serving(tmp_path, ANY_PORT) as server:
        server.wait_for(f"warning: the state is damaged: {rows.name}")


def test_what_leaves_nothing_to_go_on_from_is_damage(tmp_path: Path) -> None:
    with filled(tmp_path, 100) as (_, server):
        assert server.end(signal.SIGTERM) == 0
    state = tmp_path / "state"
    identities, snapshots = [*state.glob("identity*")], [*(state / "shard-0").glob("snapshot-*")]
    assert len(identities) == 2
    away = [file.rename(tmp_path / file.name) for file in snapshots]
    checked = finished(tmp_path, "state", "check", "state", error=errors.StateDamaged)
    assert "the snapshots in state/shard-0 are missing" in lines_of_error(checked)[0]
    for file in away:
        file.rename(state / "shard-0" / file.name)
    for files in (identities, snapshots):
        kept = [file.read_bytes() for file in files]
        for file, whole in zip(files, kept, strict=True):
            file.write_bytes(whole[:60] + bytes([whole[60] ^ 4]) + whole[61:])
        for words in (("state", "check"), ("serve", "--listen", ANY_PORT, "--state")):
            ended = finished(tmp_path, *words, "state", error=errors.StateDamaged)
            first, second = lines_of_error(ended)
            assert files[0].name.split("-")[0] in first
            assert second == "  try: restore the folder from a copy, or name another one"
        for file, whole in zip(files, kept, strict=True):
            file.write_bytes(whole)
    (state / "identity").unlink()
    checked = finished(tmp_path, "state", "check", "state", error=errors.StateDamaged)
    named = "identity is damaged; goes on from ../identity-copy"
    assert named in checked.out.decode()
    with serving(tmp_path, ANY_PORT) as server:
        server.wait_for(f"warning: the state is damaged: ../{named}")
    finished(tmp_path, "state", "check", "state")


def test_limits_that_a_server_had_raised_hold_for_its_state(tmp_path: Path) -> None:
    long, raised = 300 * "x", ("--set", "server.limits.name_bytes=1000")
    with serving(tmp_path, ANY_PORT, *raised) as server, Client(address_of(server)) as client:
        item = Item({"x": View(long, 0)})
        client.table("wide", columns={long: Column("int64")}, item=item, capacity=100)
        assert server.end(signal.SIGTERM) == 0
    finished(tmp_path, "state", "check", "state")
    finished(tmp_path, "state", "export", "state", "--out", "off")


def test_folders_without_a_state(tmp_path: Path) -> None:
    for name in ("ls", "check", "export"):
        ended = finished(tmp_path, "state", name, "nowhere", error=errors.ConfigError)
        first, second = lines_of_error(ended)
        assert first == "error: nowhere holds no state of a server"
        assert second.startswith("  try: ")
    assert not list(tmp_path.iterdir())


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    if os.geteuid() != 0:
        pytest.skip("to mount a small disk takes root")
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill_up(disk: Path) -> Path:
    """Leaves no page of it."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def test_a_full_disk_holds_appends_and_keeps_what_was_good(tmp_path: Path) -> None:
    full = "warning: appends wait: .*No space left on device"
    with small_disk(tmp_path / "disk") as disk:
        with filled(disk, 100) as (client, server):
            table = open_table(client)
            ballast, filling = fill_up(disk), Filling(table)
            filling.append(200)
            filling.writer.flush()
            server.wait_for(full)
            assert len(table.sample(8).keys) == 8  # draws go on
            ballast.unlink()
            server.wait_for("the disk takes it")
            wait_until(lambda: on_disk(client))
            before = items_of(table)
            ballast = fill_up(disk)
            filling.append(200)
            filling.writer.flush()
            wait_until(lambda: client.stats()["state.trouble"])
            assert server.end(signal.SIGTERM) == errors.ConfigError.exit_code
            first, second = lines_of_error(server)[-2:]
            assert "the state is not saved" in first and "No space left on device" in first
            assert "try: free space there" in second
        refused = finished(
            disk, "serve", "--listen", ANY_PORT, "--state", "state", error=errors.ConfigError
        )
        assert "No space left on device" in lines_of_error(refused)[-2]
        ballast.unlink()
        finished(disk, "state", "check", "state")
        with serving(disk, ANY_PORT) as server, Client(address_of(server)) as client:
            assert items_of(open_table(client)) == before


def test_a_disk_that_can_only_be_read(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        with filled(disk, 100) as (client, server):
            held = client.stats()["table.replay.live_items"]
            assert server.end(signal.SIGTERM) == 0
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        refused = finished(
            disk, "serve", "--listen", ANY_PORT, "--state", "state", error=errors.ConfigError
        )
        first, second = lines_of_error(refused)
        assert "Read-only file system" in first
        assert second == "  try: name a folder on a disk that can be written to"
        ended = finished(tmp_path, "state", "export", "disk/state", "--out", "offline", "--json")
        assert ended.last_json() == {"files": {"offline/replay.npz": held}, "damage": []}
