"""Tables that a server has already: named, opened without their declaration, exported."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from served import serving

from drlnet.client import Client, Column, Item, Limiter, Sampler, Table, View
from drlnet.errors import (
    ConfigError,
    DrlnetError,
    ReplayTimeout,
    TableDropped,
    TableMismatch,
    UnknownTable,
)

ROWS = 10_000
COLUMNS = {"x": Column("int64"), "obs.image": Column("uint8", (2, 3)), "reward": Column("float32")}
IMAGE = np.zeros((1, 2, 3), np.uint8)
ITEM = Item(
    {
        "x": View("x"),
        "image": View("obs.image", (-1, 0)),
        "reward": View("reward", (1, 3), pad="zero"),
        "end": View("x", 3, from_end=True),
    }
)


def open_one(client: Client, name: str = "replay") -> Table:
    sampler, limiter = Sampler(priority_exponent=1.0), Limiter(min_size=7, samples_per_insert=0.0)
    return client.table(
        name, columns=COLUMNS, item=ITEM, capacity=20_000, sampler=sampler, limiter=limiter, seed=9
    )


def fill(table: Table) -> None:
    with table.writer(10) as writer:
        for t in range(ROWS // 10):
            x = np.arange(10) * 10_000 + t
            image = np.repeat(x % 256, 6).reshape(10, 2, 3).astype(np.uint8)
            columns = {"x": x, "obs.image": image, "reward": x / 2}
            steps = writer.append(columns, np.full(10, t == 0), np.full(10, t == ROWS // 10 - 1))
            if t < ROWS // 10 - 1:
                writer.add_items(np.arange(10), steps, np.full(10, 1.0 + t))


def test_another_client_attaches_and_draws_the_same(address: str) -> None:
    with Client(address) as first, Client(address, name="two") as second:
        assert second.tables() == []
        table = open_one(first)
        open_one(first, "other")
        assert second.tables() == ["replay", "other"]
        fill(table)
        attached = second.attach("replay")
        batch = attached.sample(64)
        assert {name: (v.dtype, v.shape) for name, v in batch.views.items()} == {
            "x": (np.int64, (64,)),
            "image": (np.uint8, (64, 2, 2, 3)),
            "reward": (np.float32, (64, 3)),
            "end": (np.int64, (64,)),
        }
        assert (batch.views["image"][:, 1, 0, 0] == batch.views["x"] % 256).all()
        assert (batch.views["end"] == batch.views["x"] + batch.length).all()
        read = table.read_items(batch.keys)
        np.testing.assert_array_equal(read.views["reward"], batch.views["reward"])
        with attached.writer(1) as writer:  # it writes as well
            writer.append({"x": [1], "obs.image": IMAGE, "reward": [0]}, [True], [False])


def test_attaching_is_declaring_the_same(address: str) -> None:
    with Client(address) as client:
        open_one(client)
        attached = client.attach("replay")
        assert attached._columns == COLUMNS and attached._item == ITEM
        with pytest.raises(TableMismatch):
            client.table("replay", columns=COLUMNS, item=ITEM, capacity=99)


def test_a_table_that_is_not_there_names_those_that_are(address: str) -> None:
    with Client(address) as client:
        with pytest.raises(UnknownTable, match="no table 'repaly'") as info:
            client.attach("repaly")
        assert "client.table" in info.value.remedy
        open_one(client)
        with pytest.raises(UnknownTable) as info:
            client.attach("repaly")
        assert "'replay'" in info.value.remedy


def test_an_export_holds_every_item(address: str, tmp_path: Path) -> None:
    with Client(address) as client:
        table = open_one(client)
        assert table.export(tmp_path / "none.npz") == 0
        empty = np.load(tmp_path / "none.npz")
        assert (empty["view.image"].shape, empty["view.image"].dtype) == ((0, 2, 2, 3), np.uint8)
        fill(table)
        drawn = table.sample(1).items_drawn
        count = table.export(tmp_path / "items.npz")
        assert table.sample(1).items_drawn == drawn + 1
    check_export(tmp_path / "items.npz", count)


def check_export(path: Path, count: int) -> None:
    """Whether the file has every item of fill(), the keys in their order."""
    items = np.load(path)
    assert count == len(items["keys"]) == ROWS - 10
    x = items["view.x"]
    assert sorted(x) == [m * 10_000 + t for m in range(10) for t in range(ROWS // 10 - 1)]
    assert (items["keys"][1:] > items["keys"][:-1]).all()
    assert (items["priorities"] == 1.0 + x % 10_000).all()
    assert (items["lengths"] == np.minimum(3, ROWS // 10 - 1 - x % 10_000)).all()
    assert (items["view.image"][:, 1, 1, 2] == x % 256).all()
    np.testing.assert_array_equal(items["view.end"], x + items["lengths"])


@pytest.mark.parametrize("rounds", [1, 3])
def test_an_emptied_table_goes_on(address: str, rounds: int) -> None:
    with Client(address) as client:
        table = open_one(client)
        table.empty()  # of nothing
        with table.writer(1) as writer:
            for turn in range(rounds):
                steps = []
                for t in range(50):
                    row = {"x": [1000 * turn + t], "obs.image": IMAGE, "reward": [0]}
                    steps.append(writer.append(row, [turn == t == 0], [False]))
                    writer.add_items([0], steps[-1])
                writer.flush()
                changes = table.new_priorities()
                # Three rows that are not there yet, and from the second turn on the first item's
                # image: the row before it is gone.
                assert len(changes.keys) == 47 - (turn > 0)
                x = table.sample(200).views["x"]
                assert (x >= 1000 * turn + (turn > 0)).all() and (x < 1000 * turn + 47).all()
                old = table.sample(1).keys
                table.empty()
                assert table.update_priorities(old, [1.0]) == (0, 1)
                assert len(table.new_priorities().keys) == 0
                with pytest.raises(ReplayTimeout):
                    table.sample(1, timeout=0.1)
                refused = writer.items_refused
                writer.add_items([0], steps[-1])  # its row is gone
                writer.flush()
                assert writer.items_refused == refused + 1
        stats = client.stats()
        assert (stats["table.replay.rows"], stats["table.replay.live_items"]) == (0, 0)
        assert stats["table.replay.env_steps"] == 50 * rounds


def test_tables_of_several_shards(tmp_path: Path) -> None:
    with serving(2) as address, Client(address) as client:
        fill(open_one(client))
        attached = client.attach("replay")
        assert client.tables() == ["replay"] and "20,000 rows" in repr(attached)
        assert attached.sample(64).item_count == ROWS - 10
        check_export(tmp_path / "items.npz", attached.export(tmp_path / "items.npz"))
        attached.empty()
        assert attached.export(tmp_path / "none.npz") == 0
        with pytest.raises(ReplayTimeout):
            attached.sample(1, timeout=0.1)


class Failing(threading.Thread):
    """Runs what is to raise an error of drlnet's, on a thread of its own."""

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self.action = action
        self.error: DrlnetError | None = None
        self.start()

    def run(self) -> None:
        try:
            self.action()
        except DrlnetError as error:
            self.error = error

    def ended_by(self) -> DrlnetError | None:
        self.join(60)
        return self.error


@pytest.mark.parametrize("shards", [1, 2])
def test_dropping_a_table_refuses_what_waits_for_it(shards: int) -> None:
    with serving(shards) as address, Client(address, name="owner") as owner:
        other = open_one(owner, "other")
        fill(other)
        memory = owner.stats()["server.memory_bytes"]
        once = {
            "columns": COLUMNS,
            "item": ITEM,
            "capacity": 400,
            "limiter": Limiter(max_times_sampled=1),
        }
        table = owner.table("replay", **once)
        with (
            Client(address, name="actor") as actor,
            Client(address, name="learner") as learner,
        ):
            writer = actor.attach("replay").writer(10)
            drawn = learner.attach("replay")

            def write() -> None:
                for t in range(200):  # far more than the queue holds
                    image = np.repeat(IMAGE, 10, 0)
                    row = {"x": np.zeros(10, int), "obs.image": image, "reward": [0] * 10}
                    steps = writer.append(row, np.full(10, t == 0), np.zeros(10, np.bool_))
                    writer.add_items(np.arange(10), steps)
                writer.flush()

            held, waiting = Failing(write), Failing(lambda: drawn.sample(5000))
            while owner.stats()["server.waiting_requests"] < 2 * shards:
                assert held.is_alive() and waiting.is_alive()
            table.drop()
            for ended in (held, waiting):
                error = ended.ended_by()
                assert isinstance(error, TableDropped)
                assert error.cause == "table 'replay' was dropped" and error.remedy
            assert owner.stats()["server.waiting_requests"] == 0
            assert owner.stats()["server.memory_bytes"] == memory
            assert owner.tables() == ["other"]

            table.drop()  # once more
            for call in (
                lambda: drawn.sample(1),
                lambda: next(drawn.stream(4)),
                lambda: drawn.writer(1),
                lambda: drawn.update_priorities([1], [1.0]),
                lambda: drawn.export("never.npz"),
                drawn.empty,
                writer.close,
            ):
                with pytest.raises(TableDropped, match="'replay' was dropped"):
                    call()
            assert len(other.sample(64).keys) == 64

            renewed = learner.table(
                "replay", columns={"y": Column("uint8")}, item=Item({"y": View("y")}), capacity=100
            )
            with renewed.writer(1) as fresh:
                fresh.add_items([0], fresh.append({"y": [7]}, [True], [False]))
            assert set(owner.attach("replay").sample(8).views["y"]) == {7}
            with pytest.raises(TableDropped):
                drawn.sample(1)
            with pytest.raises(TableMismatch):
                owner.table("replay", **once)


def test_an_export_that_cannot_be_written(address: str, tmp_path: Path) -> None:
    with Client(address) as client:
        with pytest.raises(ConfigError, match="cannot write") as info:
            open_one(client).export(tmp_path / "absent" / "items.npz")
        assert "another file" in info.value.remedy


def test_an_export_that_is_interrupted_leaves_the_one_before(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def savez(file: Any, **arrays: Any) -> None:
        raise KeyboardInterrupt

    with Client(address) as client:
        table = open_one(client)
        table.export(tmp_path / "items.npz")
        before = (tmp_path / "items.npz").read_bytes()
        monkeypatch.setattr(np, "savez", savez)
        with pytest.raises(KeyboardInterrupt):
            table.export(tmp_path / "items")  # numpy's suffix is added
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [before]


def test_what_they_say_of_themselves(address: str) -> None:
    client = Client(address, name="me")
    assert repr(client) == f"<Client 'me' of {address}>"
    table = open_one(client)
    assert repr(table) == (
        "<Table 'replay' of 20,000 rows: x int64[], obs.image uint8[2, 3], reward float32[]; "
        "items: x, image, reward, end>"
    )
    fill(table)
    batch = repr(table.sample(4))
    assert re.fullmatch(r"<Batch of 4 out of 9,990 items: x int64\[4\], image .*>", batch)
    with table.writer(2) as writer:
        assert repr(writer) == "<Writer of 2 streams, 0 steps so far: x, obs.image, reward>"
    client.close()
    assert repr(client) == f"<Client 'me' of {address}, closed>"
