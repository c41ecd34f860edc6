"""A mirrored table against the naive oracle, and beside other clients, failures and bad input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from client.playing import COLUMNS, ITEMS, NEEDS_GPU, SAMPLER, STREAMS, OnDevice, opened, play
from gymnasium.vector import AutoresetMode
from served import serving
from system.stateful import wait_until

from drlnet import Client, Column, Item, Limiter, Table, View, native
from drlnet.client import device_rows
from drlnet.errors import ConfigError, DrlnetError, ReplayTimeout, SessionLost, TransportError

PATIENCE_S = 60.0


@pytest.fixture
def client() -> Iterator[Client]:
    with serving() as address, Client(address, name="tester", poll="block") as session:
        yield session


def numbered(client: Client, capacity: int = 500, **more: Limiter) -> Table:
    return client.table(
        "n",
        columns={"id": Column("int64")},
        item=Item({"id": View("id"), "before": View("id", (-2, 0))}),
        capacity=capacity,
        **more,
    )


def write(table: Table, ids: range) -> None:
    """One episode: a row and an item for each id but the last, which has no item."""
    with table.writer(1) as writer:
        for i in ids:
            steps = writer.append({"id": [i]}, [i == ids.start], [i == ids.stop - 1])
            if i < ids.stop - 1:
                writer.add_items([0], steps, [1.0])
        writer.flush()


@pytest.mark.parametrize("staging_bytes", [None, 8 << 20, 40])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
@pytest.mark.parametrize("longest", [3, 9])
@pytest.mark.parametrize("name", list(ITEMS))
def test_random_episodes(
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    longest: int,
    device: str,
    staging_bytes: int | None,
) -> None:
    """staging_bytes: None for rows on the host alone."""
    table, oracle = opened(client, ITEMS[name], 100)
    if staging_bytes is not None:
        monkeypatch.setattr(device_rows, "_LEAST_BYTES", 1)
        monkeypatch.setattr(device_rows, "_STAGING_BYTES", staging_bytes)
    with table.mirror(device=device if staging_bytes else None) as mirror:
        drawn = OnDevice(mirror) if staging_bytes else mirror
        play(table, oracle, longest, AutoresetMode.NEXT_STEP, drawn)
        assert mirror.stats()["mirror.rows"] == len(oracle.rows)


def test_draws_follow_the_probabilities(client: Client) -> None:
    table = numbered(client)
    write(table, range(6))
    keys = np.unique(table.sample(100).keys)
    assert table.update_priorities(keys, np.arange(1.0, 6.0)) == (5, 0)
    truth = np.arange(1.0, 6.0) ** 0.6 / np.sum(np.arange(1.0, 6.0) ** 0.6)
    with table.mirror() as mirror:
        counts, draws = np.zeros(5), 4000
        for _ in range(draws):
            batch = mirror.sample(1)
            item = int(batch.views["id"][0])
            assert batch.probabilities[0] == pytest.approx(truth[item], rel=1e-4)
            counts[item] += 1
        chi_square = np.sum((counts - draws * truth) ** 2 / (draws * truth))
        assert chi_square < 24  # of 4 degrees of freedom: once in 10,000
        assert mirror.update_priorities(keys[:1], [0.0]) == (1, 0)


def test_a_stream_is_drawn_ahead_and_lends_its_arrays(client: Client) -> None:
    table = numbered(client)
    write(table, range(100))
    with table.mirror() as mirror:
        stream = mirror.stream(40, depth=2)
        for _ in range(10):
            batch = next(stream)
            ids = batch.views["id"]
            np.testing.assert_array_equal(
                batch.views["before"], np.maximum(ids[:, None] + np.arange(-2, 1), 0)
            )
            mirror.update_priorities_async(batch.keys, np.ones(40))
        del stream


def test_a_stream_outlives_its_mirror(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_rows, "_LEAST_BYTES", 1)
    table = numbered(client)
    with table.mirror(device="cpu") as mirror:
        with pytest.raises(ReplayTimeout):
            next(mirror.stream(5, timeout=0.1))
        assert not mirror._late  # but for one that timed out
        write(table, range(900, 999))
        next(stream := mirror.stream(5))
    assert next(stream).views["id"].min() >= 900  # no numbers of rows


def test_the_limiter_counts_draws_by_reference(client: Client) -> None:
    limiter = Limiter(min_size=9, samples_per_insert=2.0, error_buffer=10.0)
    table = numbered(client, limiter=limiter)
    write(table, range(10))
    with table.mirror() as mirror:
        mirror.sample(10)
        with pytest.raises(ReplayTimeout, match="draws are ahead of insertions"):
            mirror.sample(10, timeout=0.3)
        write(table, range(10, 16))
        assert len(mirror.sample(10)) == 10  # the one that was asked for
        assert client.stats()["table.n.items_drawn"] == 20


def test_several_tables_are_mirrored_side_by_side(client: Client) -> None:
    tables = [
        client.table(
            name, columns={"id": Column("int64")}, item=Item({"id": View("id")}), capacity=99
        )
        for name in ("a", "b")
    ]
    mirrors = [table.mirror() for table in tables]
    for base, table in zip((0, 1000), tables, strict=True):
        write(table, range(base, base + 50))
    for base, mirror in zip((0, 1000), mirrors, strict=True):
        ids = mirror.sample(200).views["id"]
        assert set(ids) <= set(range(base, base + 49))
        mirror.close()


def test_shards_and_ranks() -> None:
    with serving(shards=2) as address, Client(address) as client:
        table = numbered(client)
        with table.writer(2) as writer:
            for i in range(10):
                steps = writer.append({"id": [i, 100 + i]}, [i == 0] * 2, [i == 9] * 2)
                if i < 9:
                    writer.add_items([0, 1], steps, [1.0, 3.0])
            writer.flush()
        whole = table.mirror()
        batch = whole.sample(400)
        assert {int(i) // 100 for i in batch.views["id"]} == {0, 1}
        assert batch.item_count == 18
        np.testing.assert_array_equal(batch.age >= 1, True)
        drawn = set()
        for rank in range(2):
            with table.mirror(rank=rank, world=2) as part:
                own = part.sample(100)
                (home,) = {int(i) // 100 for i in own.views["id"]}
                drawn.add(home)
                # Half of the common batch is each one's.
                np.testing.assert_allclose(own.probabilities, 0.5 / 9, rtol=1e-5)
                assert own.item_count == 18
        assert drawn == {0, 1}


def test_a_server_that_goes_ends_it(client: Client) -> None:
    with serving() as address:
        other = Client(address, timeout=1.0)
        table = numbered(other)
        write(table, range(10))
        mirror = table.mirror()
        assert len(mirror.sample(5)) == 5
    with pytest.raises((ReplayTimeout, TransportError, SessionLost)):
        mirror.sample(5, timeout=1.0)
    mirror.close()
    with pytest.raises(RuntimeError, match="closed"):
        mirror.sample(5)


def test_what_cannot_be_mirrored_is_refused(client: Client) -> None:
    queue = client.table(
        "q",
        columns={"id": Column("int64")},
        item=Item({"id": View("id")}),
        capacity=100,
        limiter=Limiter(max_times_sampled=1),
    )
    with pytest.raises(ConfigError, match="a mirror of table 'q', a queue"):
        queue.mirror()
    with pytest.raises(ConfigError, match="rank 2 of 2"):
        numbered(client).mirror(rank=2, world=2)
    with (
        Client.in_process(native.Server(["memory:"])) as inside,
        pytest.raises(ConfigError, match="in the client's own thread"),
    ):
        numbered(inside).mirror()


def test_a_mirror_larger_than_memory_is_refused() -> None:
    with serving(memory_bytes=1 << 50) as address, Client(address) as client:
        table = client.table(
            "t",
            columns={"frame": Column("uint8", (1 << 16,))},
            item=Item({"frame": View("frame")}),
            capacity=1 << 28,  # 16 TiB, of which none is touched
        )
        with pytest.raises(
            ConfigError, match=r"takes 16,?\d+ MiB of memory, of which this machine has \d+ MiB"
        ) as refused:
            table.mirror()
        assert "lower its capacity to some" in str(refused.value)
        assert client.ping() > 0


@contextmanager
def index() -> Iterator[Client]:
    """A client of a server that keeps no rows."""
    with serving(index_only=True) as address, Client(address, poll="block") as client:
        yield client


@pytest.mark.parametrize("name", list(ITEMS))
def test_a_server_without_rows_draws_the_same(name: str) -> None:
    with index() as client:
        table, oracle = opened(client, ITEMS[name], 100)
        with table.mirror() as mirror:
            play(table, oracle, 9, AutoresetMode.NEXT_STEP, mirror)


def test_a_server_without_rows_refuses_what_needs_them() -> None:
    with index() as client:
        table = numbered(client, 5000)
        write(table, range(10))
        for ask in (
            lambda: table.sample(5),
            lambda: table.read_items([1]),
            lambda: table.stream(5),
        ):
            with pytest.raises(ConfigError, match=r"keeps no rows \(--index-only\)"):
                next(iter(ask()))
        with pytest.raises(ConfigError, match="is a queue, and this server keeps no rows"):
            client.table(
                "q",
                columns={"id": Column("int64")},
                item=Item({"id": View("id")}),
                capacity=100,
                limiter=Limiter(max_times_sampled=1),
            )
        stats = client.stats()
        # 5,000 of 6,024 slots have no row; a record is 32 bytes, not 64 with the row in it.
        saved, taken = stats["table.n.saved_bytes"], stats["table.n.ring_bytes"]
        assert isinstance(saved, int) and isinstance(taken, int)
        assert taken <= 6024 * 32 + 1024 * 8 + 3 * 4096
        assert saved >= 6024 * 64 - taken - 4096
        assert client.ping() > 0


def test_a_mirror_that_comes_late_to_an_index_draws_what_it_has() -> None:
    with index() as client:
        table = numbered(client, 5000)
        write(table, range(3000))
        with table.mirror() as mirror:  # of 2,999 items it can have the newest 1,021 or so
            ids = mirror.sample(300).views["id"]
            assert ids.min() >= 3000 - 1024
            stats = mirror.stats()
            assert stats["mirror.rows"] == 1024
            assert mirror.sample(1).probabilities[0] == pytest.approx(1 / 1023)
            write(table, range(3000, 4000))
            assert mirror.sample(300).views["id"].min() >= 3000 - 1024


FOLLOWER = """
import sys
from client.test_mirror import numbered
from drlnet import Client

client = Client(sys.argv[1], name="other", poll="block")
mirror = numbered(client).mirror()
print(len(mirror.sample(10)), flush=True)
sys.stdin.read()
"""


def follower(address: str, folder: Path) -> subprocess.Popen[str]:
    """Another process that has drawn once, and goes on following."""
    here = Path(__file__).resolve().parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", FOLLOWER, address],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(here)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "10\n"
    return process


@pytest.mark.slow
def test_a_follower_that_stops_or_is_killed_holds_up_no_other(
    client: Client, tmp_path: Path
) -> None:
    table = numbered(client)
    write(table, range(50))
    mirror = table.mirror()
    others = [follower(client.address, tmp_path) for _ in range(2)]
    try:
        os.kill(others[0].pid, signal.SIGSTOP)
        others[1].kill()
        memory = client.stats()["server.memory_bytes"]
        for base in range(50, 50_000, 5_000):
            write(table, range(base, base + 5_000))
            ids = mirror.sample(100).views["id"]
            assert ids.min() >= base + 5_000 - 501
        assert client.stats()["server.memory_bytes"] == memory
        os.kill(others[0].pid, signal.SIGCONT)  # and goes on from a gap
        again = follower(client.address, tmp_path)  # the killed one, anew
        again.communicate(timeout=PATIENCE_S)
        assert again.returncode == 0
    finally:
        for process in others:
            process.kill()
            process.communicate()
    mirror.close()


def test_columns_of_another_kind_are_refused(client: Client) -> None:
    numbered(client)
    with pytest.raises(DrlnetError, match="'n'"):
        client.table(
            "n", columns={"id": Column("int32")}, item=Item({"id": View("id")}), capacity=500
        )


def test_its_figures(client: Client) -> None:
    table = client.table("t", columns=COLUMNS, item=ITEMS["dqn"], capacity=1000, sampler=SAMPLER)
    with table.mirror() as mirror:
        assert mirror.stats()["mirror.rows"] == 0
        with table.writer(STREAMS) as writer:
            for i in range(7):
                ids = i * STREAMS + np.arange(STREAMS)
                writer.append(
                    {
                        "obs": np.zeros((STREAMS, 3)),
                        "reward": np.zeros(STREAMS),
                        "action": np.zeros(STREAMS, np.uint8),
                        "id": ids,
                    },
                    np.full(STREAMS, i == 0),
                    np.zeros(STREAMS, np.bool_),
                )
            writer.flush()
        wait_until(lambda: mirror.stats()["mirror.rows"] == 7 * STREAMS)
        stats = mirror.stats()
        assert stats["mirror.rows_behind"] == stats["mirror.replaced"] == 0
        # 2,024 slots (1,024 of them the ring's reserve) of 25 bytes.
        assert stats["mirror.memory_bytes"] == 2024 * 25
        assert client.stats()["peer.rows_tester.waiting_for"] == "rows"
