"""A server that keeps its state: killed and started again, its clients go on (help operations)."""

from __future__ import annotations

import re
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from system.command import Command, command, finished, lines_of_error
from system.stateful import (
    DEADLINE_S,
    STREAMS,
    Filling,
    free_address,
    items_of,
    on_disk,
    open_table,
    serving,
    wait_until,
)

from drlnet import errors
from drlnet.client import Client, Column, Item, Limiter, View


def test_a_stopped_server_comes_back_as_it_was(tmp_path: Path) -> None:
    address = free_address()
    with serving(tmp_path, address) as server, Client(address) as client:
        table = open_table(client)
        filling = Filling(table)
        filling.append(700)
        filling.writer.flush()
        keys = table.new_priorities().keys[:50]
        assert table.update_priorities(keys, np.arange(50) + 20.0) == (50, 0)
        assert client.publish(b"params of the first life") == 1
        before, stats = items_of(table), client.stats()
        assert server.end(signal.SIGTERM) == 0, server.text()
        with serving(tmp_path, address) as again:
            assert lines_of_error(again)[:-1] == []
            assert items_of(table) == before
            assert client.fetch() == (1, b"params of the first life")
            after = client.stats()
            for name in ("env_steps", "items_created", "live_items", "rows", "applied_updates",
                         "pending_items", "items_retired", "priority_mass"):  # fmt: skip
                assert after[f"table.replay.{name}"] == stats[f"table.replay.{name}"], name
            # Keys of the life before are stale: a number may stand for another row by now.
            assert table.update_priorities(keys, np.ones(50)) == (0, 50)
            assert client.publish(b"more") == 2
            filling.append(50)
            filling.writer.flush()
            assert client.own_stats()["server_restarts"] == 1
            assert client.stats()["table.replay.env_steps"] > stats["table.replay.env_steps"]


@pytest.mark.parametrize("durability", ["0", "0.2"])
def test_nothing_is_lost_when_the_server_is_killed(tmp_path: Path, durability: str) -> None:
    """Killed in mid-append, five times: each row is there once, whatever was on disk by then."""
    address = free_address()
    with serving(tmp_path, address, "--durability", durability) as server, Client(address) as one:
        filling = Filling(open_table(one, capacity=100_000))
        failed: list[BaseException] = []
        done = threading.Event()

        def append() -> None:
            try:
                while not done.is_set():
                    filling.append(10)
                filling.writer.flush()
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=append)
        thread.start()
        try:
            running = server
            for _ in range(5):
                reached = filling.t + 300
                wait_until(lambda: filling.t > reached or failed)  # noqa: B023
                assert not failed, failed
                assert running.end(signal.SIGKILL) == -signal.SIGKILL
                running = Command(
                    ["serve", "--listen", address, "--state", "state", "--durability", durability],
                    tmp_path,
                )
                running.wait_for("ready")
        finally:
            done.set()
            thread.join(DEADLINE_S)
        try:
            assert not failed, failed
            with Client(address, name="looks") as looks:
                stats = looks.stats()
                assert stats["table.replay.rows"] == STREAMS * filling.t
                found = items_of(open_table(looks, capacity=100_000))
                numbers = [t for t in range(filling.t) if t % 50 != 49]
                # Those at the end wait for their rows.
                complete = [t for t in numbers if t + 2 < filling.t or t // 50 < filling.t // 50]
                expected = {s * 10**6 + t for s in range(STREAMS) for t in complete}
                assert expected <= found.keys()
                mass = {x: (1.0 + x % 10**6 % 7) ** 0.6 for x in expected}
                for x in expected:
                    assert found[x][0] == pytest.approx(mass[x], rel=1e-5)
            assert one.own_stats()["server_restarts"] == 5
        finally:
            running.popen.kill()
            running.popen.wait()


def test_what_is_acknowledged_is_on_disk_after_durability(tmp_path: Path) -> None:
    """The writer is gone with the server: nothing sends the rows again."""
    address = free_address()
    with serving(tmp_path, address, "--durability", "0.1") as server:
        with Client(address) as client:
            filling = Filling(open_table(client))
            filling.append(500)
            filling.writer.flush()
            client.publish(b"the newest")
            wait_until(lambda: on_disk(client))
            before = items_of(open_table(client))
            server.end(signal.SIGKILL)
        with serving(tmp_path, address), Client(address) as client:
            assert items_of(open_table(client)) == before
            assert client.fetch() == (1, b"the newest")


def test_logged_before_it_is_acknowledged(tmp_path: Path) -> None:
    address = free_address()
    with serving(tmp_path, address, "--durability", "0") as server:
        with Client(address) as client:
            filling = Filling(open_table(client))
            filling.append(30)
            filling.writer.flush()
            server.end(signal.SIGKILL)
        with serving(tmp_path, address), Client(address) as client:
            assert client.stats()["table.replay.rows"] == 30 * STREAMS


def test_a_ring_that_turns_often_stays_small_on_disk(tmp_path: Path) -> None:
    address = free_address()
    with serving(tmp_path, address, "--durability", "0.05") as server, Client(address) as client:
        table = open_table(client, capacity=2000)
        filling = Filling(table)
        for _ in range(30):
            filling.append(500)
            filling.writer.flush()
        before = items_of(table)
        assert server.end(signal.SIGTERM) == 0
        size = sum(file.stat().st_size for file in (tmp_path / "state").rglob("*"))
        assert size < 6_000_000  # 60,000 rows of 132 bytes came, 2,000 are held
        with serving(tmp_path, address):
            assert items_of(table) == before


def test_shards_come_back_together(tmp_path: Path) -> None:
    address = "udp://127.0.0.1:0"
    with serving(tmp_path, address, "--shards", "2") as server:
        address = re.findall(r"udp://[0-9.:]+", server.wait_for("ready"))[0]
        with Client(address) as client:
            filling = Filling(open_table(client))
            filling.append(200)
            filling.writer.flush()
            rows = client.stats()["table.replay.rows"]
            assert server.end(signal.SIGTERM) == 0
            with serving(tmp_path, address, "--shards", "2"):
                filling.append(20)
                filling.writer.flush()
                assert client.stats()["table.replay.rows"] == rows + 20 * STREAMS
                assert len(open_table(client).sample(64).keys) == 64
    ended = finished(
        tmp_path, "serve", "--listen", address, "--state", "state", error=errors.ConfigError
    )
    assert "--shards 2" in ended.err.decode()


def test_another_server_in_its_place_ends_sessions(tmp_path: Path) -> None:
    address = free_address()
    with serving(tmp_path, address) as server, Client(address) as client:
        filling = Filling(open_table(client))
        filling.append(10)
        server.end(signal.SIGKILL)
        with command(tmp_path, "serve", "--listen", address) as other:
            other.wait_for("ready")
            with pytest.raises(errors.SessionLost, match="another server"):
                filling.writer.flush()


def test_a_queue_gives_each_item_once_over_a_restart(tmp_path: Path) -> None:
    address = free_address()
    with serving(tmp_path, address, "--durability", "0") as server, Client(address) as client:
        table = client.table(
            "queue",
            columns={"x": Column("int64")},
            item=Item({"x": View("x")}),
            capacity=500,
            limiter=Limiter(max_times_sampled=1),
        )
        writer = table.writer(1)
        first = np.arange(200) == 0
        for t in range(200):
            step = writer.append({"x": np.array([t])}, first[t : t + 1], [False])
            writer.add_items([0], step)
        writer.flush()
        drawn = set(table.sample(120).views["x"].ravel().tolist())
        wait_until(lambda: on_disk(client))
        server.end(signal.SIGKILL)
        with serving(tmp_path, address):
            drawn |= set(table.sample(80).views["x"].ravel().tolist())
            assert drawn == set(range(200))


def test_mistakes_are_told_in_two_lines(tmp_path: Path) -> None:
    address = free_address()

    def refused(
        value: str, kind: type[errors.DrlnetError] = errors.ConfigError, option: str = "--state"
    ) -> str:
        ended = finished(
            tmp_path, "serve", "--listen", "udp://127.0.0.1:0", option, value, error=kind
        )
        assert len(lines_of_error(ended)) == 2, ended.text()
        return ended.err.decode()

    assert "add --state DIR" in refused("0.5", option="--durability")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter-1.tex").write_text("In the beginning")
    assert "holds other files" in refused("thesis")
    assert [one.name for one in (tmp_path / "thesis").iterdir()] == ["chapter-1.tex"]
    assert "Not a directory" in refused("thesis/chapter-1.tex/state")
    with serving(tmp_path, address):
        assert "another process uses the state" in refused("state")
    for identity in (tmp_path / "state").glob("identity*"):
        identity.write_bytes(identity.read_bytes()[:-3])
    assert "identity-copy is damaged" in refused("state", errors.StateDamaged)
