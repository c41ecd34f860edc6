"""Tables that are queues, over a session: every unroll comes exactly once, and none is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import ExitStack

import numpy as np
import pytest
from served import serving

from drlnet import Client, Column, Item, Limiter, Sampler, Table, View, Writer
from drlnet.errors import ConfigError, ReplayTimeout

UNROLL = 5
REFUSED_S = 0.5
SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])


def queue(client: Client, capacity: int = 2000, most: int = 1, **limiter: int) -> Table:
    return client.table(
        "unrolls",
        columns={"x": Column("int64")},
        item=Item({"x": View("x", (0, UNROLL - 1))}, boundary="cross", period=UNROLL),
        capacity=capacity,
        sampler=Sampler("fifo"),
        limiter=Limiter(max_times_sampled=most, **limiter),  # type: ignore[arg-type]
    )


def play(writer: Writer, steps: range) -> None:
    """Rows of x = step, and 100,000 more for each stream; episodes of 7 steps."""
    base = np.arange(writer.num_streams) * 100_000
    for step in steps:
        first = np.full(writer.num_streams, step % 7 == 0)
        last = np.full(writer.num_streams, step % 7 == 6)
        at = writer.append({"x": base + step}, first, last)
        writer.add_items(np.arange(writer.num_streams), at)


@SHARDS
def test_each_unroll_comes_once(shards: int) -> None:
    with serving(shards) as address, Client(address, poll="block") as client:
        table = queue(client)
        with table.writer(8) as writer:
            play(writer, range(8 * UNROLL))
            writer.flush()
            assert writer.items_refused == 8 * (8 * UNROLL - 8)  # off the period
            drawn = np.concatenate([table.sample(8, timeout=5).views["x"] for _ in range(8)])
            assert len(np.unique(drawn[:, 0])) == 64
            assert (np.diff(drawn, axis=1) == 1).all() and (drawn[:, 0] % UNROLL == 0).all()
            with pytest.raises(ReplayTimeout):
                table.sample(1, timeout=REFUSED_S)


@SHARDS
def test_writers_wait_for_the_reader(shards: int) -> None:
    """Four clients of eight streams each take turns; the queue holds a tenth of their rows."""
    steps, batch = 100 * UNROLL, 16
    capacity = 1300  # what slow streams have begun is at its end again and again

    def write(address: str) -> None:
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(address, poll="block")) for _ in range(4)]
            tables = [queue(one, capacity, batch=batch) for one in clients]
            writers = [stack.enter_context(table.writer(8)) for table in tables]
            for step in range(0, steps, 20):
                for writer in writers:
                    play(writer, range(step, step + 20))

    with serving(shards) as address, Client(address, poll="block") as client:
        table = queue(client, capacity, batch=batch)
        thread = threading.Thread(target=write, args=(address,))
        thread.start()
        deadline = time.monotonic() + 30
        while not client.stats()["table.unrolls.limiter_waits.inserts_limit"]:
            assert time.monotonic() < deadline, "no append waits although nothing is drawn"
        counts: Counter[int] = Counter()
        for _ in range(4 * 8 * steps // UNROLL // batch):
            first = table.sample(batch, timeout=30).views["x"]
            assert (np.diff(first, axis=1) == 1).all()
            counts.update(first[:, 0].tolist())
        thread.join()
    expected = {stream * 100_000 + step for stream in range(8) for step in range(0, steps, UNROLL)}
    assert set(counts) == expected and set(counts.values()) == {4}


@SHARDS
def test_one_stream_comes_in_its_order(shards: int) -> None:
    with serving(shards) as address, Client(address, poll="block") as client:
        table = queue(client)
        with table.writer(1) as writer:
            play(writer, range(30 * UNROLL))
            writer.flush()
            drawn = np.concatenate([table.sample(10, timeout=5).views["x"][:, 0] for _ in range(3)])
    assert drawn.tolist() == list(range(0, 30 * UNROLL, UNROLL))


def test_a_full_queue_says_what_an_append_waits_for() -> None:
    with serving() as address, Client(address, poll="block") as client:
        table = queue(client, capacity=100)
        writer = table.writer(1, timeout=REFUSED_S, flush_rows=1)
        with pytest.raises(ReplayTimeout, match="insertions are ahead of draws"):
            play(writer, range(200))
            writer.flush()


def test_a_queue_that_can_deadlock_is_refused() -> None:
    with serving() as address, Client(address, poll="block") as client:
        with pytest.raises(ConfigError, match="can deadlock") as caught:
            queue(client, capacity=100, batch=64)
        assert "set capacity to" in caught.value.remedy


@SHARDS
def test_a_sample_that_came_too_late_loses_nothing(shards: int) -> None:
    with serving(shards) as address, Client(address, poll="block") as client:
        table = queue(client, most=2)
        counts: Counter[int] = Counter()
        with table.writer(4) as writer:
            for step in range(0, 16 * UNROLL, UNROLL):
                with pytest.raises(ReplayTimeout):
                    table.sample(8, timeout=0.001)
                play(writer, range(step, step + UNROLL))
                writer.flush()
                counts.update(table.sample(8, timeout=5).views["x"][:, 0].tolist())
    assert len(counts) == 64 and set(counts.values()) == {2}


@SHARDS
def test_a_stream_needs_no_more_than_a_batch(shards: int) -> None:
    """Writers that wait for the learner after each batch: the next one is asked for meanwhile."""
    with serving(shards) as address, Client(address, poll="block") as client:
        table = queue(client)
        stream = table.stream(8, depth=3, timeout=5)
        seen: set[int] = set()
        with table.writer(8) as writer:
            for step in range(0, 50 * UNROLL, UNROLL):
                play(writer, range(step, step + UNROLL))
                writer.flush()
                seen.update(next(stream).views["x"][:, 0].tolist())
    assert len(seen) == 50 * 8


@SHARDS
def test_readers_share_what_there_is(shards: int) -> None:
    """Two readers that give up early, again and again, and six writers of one small queue."""
    rounds, batch, most = 60, 8, 2
    steps = 5 * 2 * rounds

    def write(address: str, at: int) -> None:
        with ExitStack() as stack:
            table = queue(stack.enter_context(Client(address, poll="block")), 900, most)
            # An unroll leaves in parts: between them the others go round the whole ring.
            writer = stack.enter_context(table.writer(1, flush_rows=3, flush_interval_s=60))
            for step in range(steps):
                edge = np.array([step % 7 == 0]), np.array([step % 7 == 6])
                row = writer.append({"x": np.array([at * 100_000 + step])}, *edge)
                writer.add_items(np.arange(1), row)

    def read(address: str, counts: Counter[int]) -> None:
        with Client(address, poll="block") as client:
            table, done = queue(client, 900, most), 0
            while done < rounds:
                try:
                    views = table.sample(batch, timeout=0.0005).views["x"]
                except ReplayTimeout:
                    continue
                assert (np.diff(views, axis=1) == 1).all()
                counts.update(views[:, 0].tolist())
                done += 1

    with serving(shards) as address:
        counts: list[Counter[int]] = [Counter(), Counter(), Counter()]
        writers = [threading.Thread(target=write, args=(address, at)) for at in range(6)]
        readers = [threading.Thread(target=read, args=(address, one)) for one in counts[:2]]
        for thread in writers + readers:
            thread.start()
        for thread in readers:
            thread.join()
        with Client(address, poll="block") as client:
            table = queue(client, 900, most)
            for _ in range(6 * steps // UNROLL * most - 2 * rounds * batch):
                counts[2].update(table.sample(1, timeout=30).views["x"][:, 0].tolist())
            with pytest.raises(ReplayTimeout):
                table.sample(1, timeout=0.01)
        for thread in writers:
            thread.join()
    total = counts[0] + counts[1] + counts[2]
    assert len(total) == 6 * steps // UNROLL and set(total.values()) == {most}


def test_a_full_shard_must_hold_what_is_asked_for() -> None:
    with serving(2) as address, Client(address, poll="block") as client:
        with pytest.raises(ConfigError, match="110 rows in each shard can not hold 32") as caught:
            queue(client, capacity=220, batch=32)
        assert "set capacity to 330" in caught.value.remedy
