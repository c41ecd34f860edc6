"""A server of several shards, as its clients meet it: one table, one limiter, true chances."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pytest
from served import running, serving

from drlnet import Client, Column, Item, Limiter, Sampler, Table, View, Writer, native
from drlnet.client import NO_KEY
from drlnet.errors import (
    AnotherPublisher,
    BadPriority,
    ConfigError,
    ReplayTimeout,
    SessionLost,
    TransportError,
    UnknownLease,
)
from drlnet.metrics.shards import add_up

SHARDS = 2
REFUSED_S = 0.5  # enough for a server on a busy machine to say what a request waits for
SHARD_SHIFT = np.uint64(56)


@pytest.fixture
def client() -> Iterator[Client]:
    with serving(SHARDS) as address, Client(address, name="tester", poll="block") as session:
        yield session


def open_table(client: Client, limiter: Limiter | None = None, capacity: int = 1000) -> Table:
    return client.table(
        "t",
        columns={"x": Column("float32", (3,)), "step": Column("int64")},
        item=Item({"x": View("x"), "next": View("x", 2, from_end=True), "step": View("step")}),
        capacity=capacity,
        sampler=Sampler(priority_exponent=1.0),
        limiter=limiter,
    )


def write(writer: Writer, steps: range, priorities: Sequence[float] | None = None) -> None:
    """Rows that name their stream (x) and step; an item at each step but the episode's last."""
    streams = np.arange(writer.num_streams)
    for t in steps:
        at = writer.append(
            {
                "x": np.repeat(streams, 3).reshape(-1, 3) * 1000.0 + t,
                "step": np.full(len(streams), t),
            },
            first=np.full(len(streams), t == steps.start),
            last=np.full(len(streams), t == steps.stop - 1),
        )
        if t < steps.stop - 1:
            writer.add_items(streams, at, priorities)
    writer.flush()


def shards_of(keys: np.ndarray) -> np.ndarray:
    return (keys >> SHARD_SHIFT).astype(int)


def test_a_shorter_timeout_holds_from_then_on() -> None:
    for shards in (1, SHARDS):
        with serving(shards) as address:
            client = Client(address, timeout=60.0)
            assert client.ping() > 0
        client.set_timeout(0.1)
        with pytest.raises(ReplayTimeout, match=r"waited 0\.\d+ s"):
            client.stats()
        client.close()


def test_probabilities_are_true_and_draws_follow_them(client: Client) -> None:
    table = open_table(client)
    with table.writer(2) as writer:
        write(
            writer, range(6), priorities=[1.0, 9.0]
        )  # five items of 1 at one shard, of 9 at the other
        truth = {0.0: 1 / 50, 1.0: 9 / 50}
        counts: dict[tuple[float, int], int] = {}
        singles = 3000
        for _ in range(singles):
            batch = table.sample(1)
            stream = float(batch.views["x"][0, 0] // 1000)
            assert batch.probabilities[0] == pytest.approx(truth[stream], rel=1e-5)
            assert batch.item_count == 10
            item = (stream, int(batch.views["step"][0]))
            counts[item] = counts.get(item, 0) + 1
        expected = {(s, t): singles * truth[s] for s in truth for t in range(5)}
        assert set(counts) == set(expected)
        chi_square = sum((counts[item] - n) ** 2 / n for item, n in expected.items())
        assert chi_square < 33.7  # 9 degrees of freedom, 1 in 10,000

        batch = table.sample(64)
        assert batch.priority_mass == pytest.approx(50)
        drawn = np.bincount(shards_of(batch.keys), minlength=SHARDS)
        assert sorted(drawn) in ([6, 58], [7, 57])  # 6.4 of 64, rounded either way
        streams = batch.views["x"][:, 0] // 1000
        assert np.allclose(batch.probabilities, np.where(streams == 1, 9 / 50, 1 / 50))
        steps = batch.views["step"]
        assert np.array_equal(batch.views["x"][:, 0] % 1000, steps)
        assert np.array_equal(batch.length, np.minimum(2, 5 - steps))
        assert np.array_equal(batch.views["next"][:, 2] % 1000, steps + batch.length)
        assert np.array_equal(batch.age, 6 - steps)


def test_priorities_reach_their_shard(client: Client) -> None:
    table = open_table(client)
    with table.writer(2) as writer:
        write(writer, range(3))
        keys = np.unique(table.sample(400).keys)
        assert sorted(np.bincount(shards_of(keys))) == [2, 2]
        values = np.arange(1.0, 5.0)
        foreign = np.array([NO_KEY, np.uint64(7) << SHARD_SHIFT], np.uint64)
        assert table.update_priorities([*keys, *foreign], [*values, 8.0, 9.0]) == (4, 2)
        table.sample(1)  # tells the masses that the next one is divided by
        batch = table.sample(100)
        chance = dict(zip(keys.tolist(), values / values.sum(), strict=True))
        assert np.allclose(batch.probabilities, [chance[key] for key in batch.keys.tolist()])
        with pytest.raises(BadPriority):
            table.update_priorities(keys, [1.0, 1.0, 1.0, np.nan])
        table.update_priorities_async(keys, np.ones(4))
        table.update_priorities(keys[:0], [])
        table.sample(1)
        while table.sample(8).priority_mass != 4:  # asynchronous: it is under way
            pass


def test_streams_batches_lend_their_buffers_in_turn(client: Client) -> None:
    table = open_table(client)
    with table.writer(4) as writer:
        write(writer, range(10))
        ahead = table.stream(32, depth=2)
        for _ in range(20):
            batch = next(ahead)
            assert np.allclose(batch.probabilities, 1 / 36)
            steps = batch.views["step"]
            assert np.array_equal(batch.views["x"][:, 1] % 1000, steps)
            assert set(shards_of(batch.keys)) == {0, 1}
        ahead.close()


def test_min_size_counts_the_items_of_all_shards(client: Client) -> None:
    table = open_table(client, Limiter(min_size=4))
    with table.writer(2) as writer:
        write(writer, range(2))
        with pytest.raises(ReplayTimeout, match="min_size"):
            table.sample(2, timeout=REFUSED_S)
        write(writer, range(2, 4))
        assert table.sample(2).item_count == 4


def test_the_limiter_is_exact_over_all_shards(client: Client) -> None:
    # Balance: 4 * (created - 2) - drawn in [-16, 16].
    limiter = Limiter(min_size=2, samples_per_insert=4, error_buffer=16, batch=4)
    table = open_table(client, limiter)
    writer = table.writer(2, timeout=REFUSED_S)
    write(writer, range(3))
    for _ in range(8):  # 4 * (4 - 2) - 24 = -16
        table.sample(3)
    with pytest.raises(ReplayTimeout, match="samples_per_insert"):
        table.sample(3, timeout=REFUSED_S)
    write(writer, range(3, 5))
    assert table.sample(3).items_drawn == 27  # the one that waited
    with pytest.raises(ReplayTimeout, match="samples_per_insert"):
        for t in range(5, 50, 2):
            write(writer, range(t, t + 2))
    stats = client.stats()
    assert stats["table.t.items_drawn"] == 27
    assert stats["table.t.items_created"] == 12  # 4 * (12 - 2) - 27 = 13: not one more


def test_an_insertion_at_one_shard_lets_the_other_draw(client: Client) -> None:
    table = open_table(client, Limiter(min_size=3))
    with table.writer(2) as writer:
        write(writer, range(2))
        found: list[int] = []
        waiting = threading.Thread(target=lambda: found.append(len(table.sample(8))))
        waiting.start()
        while client.stats()["table.t.limiter_waits.min_size"] == 0:
            pass
        one = table.writer(1)  # at one of the shards: the other one's part waits there
        write(one, range(2))
        waiting.join()
        one.close()
    assert found == [8]


def test_streams_are_shared_out_and_resumed_where_they_are() -> None:
    with serving(SHARDS) as address:
        with Client(address) as first:
            table = open_table(first)
            writers = [table.writer(n) for n in (3, 3, 1, 1)]
            ordinals = np.concatenate([writer.ordinals for writer in writers])
            assert len(set(ordinals)) == 8
            assert sorted(np.bincount(ordinals % SHARDS)) == [4, 4]
            write(writers[0], range(3))
            leases = writers[0].leases
            assert [lease.next_step for lease in leases] == [3, 3, 3]
        with Client(address) as second:
            table = open_table(second)
            shuffled = [leases[2], leases[0], leases[1]]
            writer = table.writer(3, resume=shuffled)
            assert writer.leases == shuffled
            write(writer, range(3, 6))
            assert second.stats()["table.t.rows"] == 18
            writer.release()
            with pytest.raises(UnknownLease):
                table.writer(3, resume=shuffled)


def test_the_capacity_is_that_of_all_shards(client: Client) -> None:
    table = open_table(client, capacity=101)
    with table.writer(4) as writer:
        write(writer, range(100))
        stats = client.stats()
        assert stats["table.t.capacity"] == 101
        assert stats["table.t.rows"] == 101
        assert stats["table.t.fill"] == 1
        assert stats["table.t.env_steps"] == 4 * 99
        with pytest.raises(ConfigError, match="capacity: 102 here, 101 at the server"):
            open_table(client, capacity=102)


def test_params_pings_and_figures(client: Client) -> None:
    assert client.fetch() is None
    assert client.publish(b"first") == 1
    assert client.fetch() == (1, b"first")
    assert client.fetch(1) is None
    assert client.ping(100) > 0
    table = open_table(client)
    with table.writer(2) as writer:
        write(writer, range(3))
        table.sample(50)
        client.report({"learner_steps": 7})
        stats = client.stats()
    assert stats["server.clients"] == 1
    assert stats["server.params_version"] == 1
    assert stats["client.tester.learner_steps"] == 7
    assert stats["table.t.items_created"] == 4
    assert stats["table.t.items_drawn"] == 50
    assert stats["table.t.samples_per_insert"] == 50 / 4
    own = client.own_stats()
    latency = own["sample.latency"]
    assert isinstance(latency, native.HistogramReading)
    assert latency.count == 2 * SHARDS  # once for the masses, once for the batch


def test_one_client_publishes_until_it_ends_or_another_takes_over() -> None:
    with serving(SHARDS) as address, Client(address, name="b") as second:
        with Client(address, name="a") as first:
            assert first.publish(b"first") == 1
            with pytest.raises(AnotherPublisher, match="'a' publishes params") as raised:
                second.publish(b"refused")
            assert "drlnet learn --takeover" in raised.value.remedy
            assert second.fetch() == (1, b"first")
            second.take_over()
            with pytest.raises(AnotherPublisher, match="'b' publishes params"):
                first.publish(b"replaced")
            first.take_over()
            assert first.publish(b"again") == 2
        assert second.publish(b"its turn") == 3
        stats = second.stats()
        assert stats["server.publishes_refused"] == 2
        assert stats["server.publishers_replaced"] == 2


def test_what_asks_one_server_says_so(client: Client) -> None:
    table = open_table(client)
    for call in (lambda: table.read_items([1]), table.new_priorities):
        with pytest.raises(ConfigError, match="2 shards"):
            call()
    for n in (0, -1):
        with pytest.raises(ConfigError, match=f"n is {n}"):
            table.sample(n)
    with table.writer(2) as writer:
        write(writer, range(2))
        with pytest.raises(ConfigError, match="names no row"):
            writer.add_items([2], [0])
        with pytest.raises(BadPriority):
            writer.add_items([0, 1], [0, 0], [1.0, np.inf])
        with pytest.raises(ConfigError, match=r"n is 65537.*\n.*1 to 65,536"):
            table.sample(65537)


def test_the_address_is_the_first_shard_s() -> None:
    with (
        serving(SHARDS) as address,
        pytest.raises(ConfigError, match="is shard 1 of a server of 2"),
    ):
        Client(native.shard_address(address, 1))
    with pytest.raises(ConfigError, match="65 shards"):
        native.Server.shards(["udp://127.0.0.1:0"], 65)
    with pytest.raises(TransportError, match="no port above it"):
        native.Server.shards(["udp://127.0.0.1:65535"], 2)
    nic = "dpdk:pci:0000:3b:00.0,ip=10.7.0.2/24"
    with pytest.raises(TransportError, match="no port above it"):
        native.shard_address(f"{nic},to=10.7.0.1:65535", 1)
    assert native.shard_address(nic, 0) == nic
    assert native.shard_address(nic, 1) == f"{nic},port=7448"
    assert native.shard_address(f"{nic},port=9,mtu=9000", 3) == f"{nic},mtu=9000,port=12"
    assert native.shard_address(f"{nic},to=10.7.0.1", 2) == f"{nic},to=10.7.0.1:7449"
    v6 = "dpdk:af_packet:eth1,ip=fd00::1,to=[fd00::2]:9"
    assert native.shard_address(v6, 1) == "dpdk:af_packet:eth1,ip=fd00::1,to=[fd00::2]:10"
    assert native.shard_address("udp://[::1]:7447,buffer=8192", 3) == "udp://[::1]:7450,buffer=8192"
    assert native.shard_address("dpdk:local", 1) == "dpdk:local:default-shard1"
    assert native.shard_address("dpdk:memif:a", 0) == "dpdk:memif:a"


def test_a_server_or_a_shard_that_restarts_is_another_one() -> None:
    def lost(call: Callable[[], object]) -> None:
        """Until the session hears of it, calls run into their deadline."""
        with pytest.raises(SessionLost):
            for _ in range(20):
                with contextlib.suppress(ReplayTimeout, TransportError):
                    call()

    first, second = native.Server.shards(["udp://127.0.0.1:0"], SHARDS, "block")
    with ExitStack() as clients:
        with running([first]) as address:
            with running([second]) as place:
                client = clients.enter_context(Client(address, poll="block", timeout=0.3))
                table = open_table(client)
                writer = table.writer(SHARDS)
                write(writer, range(3))
                assert table.sample(8).item_count == 4
            del second  # its socket goes with it
            with running([native.Server([place], "block")]):
                lost(lambda: table.sample(8))
                lost(lambda: write(writer, range(3, 5)))
                # The first shard's session goes on: the params are its.
                assert client.publish(b"still here") == 1
        del first
        with serving(SHARDS, address), Client(address, poll="block") as again:
            lost(lambda: client.fetch(0))
            assert again.fetch() is None
            table = open_table(again)
            with table.writer(SHARDS) as new_writer:
                write(new_writer, range(3))
                assert table.sample(8).item_count == 4


def test_a_server_that_is_alone_says_nothing_of_shards() -> None:
    with serving(1) as address, Client(address) as client:
        table = open_table(client)
        with table.writer(2) as writer:
            write(writer, range(3))
            assert writer.ordinals.tolist() == [0, 1]
            assert table.sample(4).item_count == 4


def test_each_shard_tells_how_busy_it_was() -> None:
    assert add_up([{"server.busy_s": 90.0}, {"server.busy_s": 1.0}]) == {
        "server.busy_s": 90.0, "server.shard_busy_s.0": 90.0, "server.shard_busy_s.1": 1.0,
    }  # fmt: skip


def test_readings_add_up_by_what_they_are() -> None:
    first = {
        "server.cpu_s": 2.0, "server.polls": 5, "server.version": "1", "table.a.b.rows": 30,
        "table.a.b.capacity": 50, "table.a.b.fill": 0.6, "peer.x.waiting_for": "",
        "table.a.b.limiter_wait_s.min_size": 2.0, "client.x.own": 4, "state.rows_to_load": 6,
        "server.request_bytes": 10, "table.a.b.saved_bytes": 100,
    }  # fmt: skip
    second = {
        "server.cpu_s": 2.1, "server.polls": 7, "server.version": "1", "table.a.b.rows": 10,
        "table.a.b.capacity": 50, "table.a.b.fill": 0.2, "peer.x.waiting_for": "min_size",
        "table.a.b.limiter_wait_s.min_size": 1.5, "state.rows_to_load": 7,
        "server.request_bytes": 20, "table.a.b.saved_bytes": 200,
    }  # fmt: skip
    assert add_up([first]) == first
    assert add_up([first, second]) == {
        "server.cpu_s": 2.1, "server.polls": 12, "server.version": "1", "table.a.b.rows": 40,
        "table.a.b.capacity": 100, "table.a.b.fill": 0.4, "peer.x.waiting_for": "min_size",
        "table.a.b.limiter_wait_s.min_size": 2.0, "client.x.own": 4, "state.rows_to_load": 13,
        "server.request_bytes": 30, "table.a.b.saved_bytes": 300,
    }  # fmt: skip
