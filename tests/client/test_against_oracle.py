"""The native table, through the client, against the naive oracle: every live item and no other,
each with the views, length and probability that it should have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from client.playing import COLUMNS, ITEMS, SAMPLER, STREAMS, Both, compare, opened, play
from gymnasium.vector import AutoresetMode
from oracle import OracleTable
from toy import TOY

from drlnet import native
from drlnet.client import Client, Item, Table, Writer
from drlnet.config import EnvConfig
from drlnet.envs import make_envs


@contextmanager
def tables(item: Item, capacity: int) -> Iterator[tuple[Table, OracleTable]]:
    with Client.in_process(native.Server(["memory:"])) as client:
        yield opened(client, item, capacity)


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("longest", [1, 3, 9])
@pytest.mark.parametrize("name", list(ITEMS))
def test_random_episodes(name: str, longest: int, mode: AutoresetMode) -> None:
    with tables(ITEMS[name], capacity=100) as (table, oracle):
        play(table, oracle, longest, mode)


def test_a_dropped_name_holds_one_table_after_another() -> None:
    with Client.in_process(native.Server(["memory:"])) as client:
        for name, capacity in zip(ITEMS, (100, 60, 140, 80), strict=True):
            table, oracle = opened(client, ITEMS[name], capacity)
            play(table, oracle, 9, AutoresetMode.NEXT_STEP)
            table.drop()


def episode(writer: Writer, length: int, start: int) -> np.ndarray:
    """A whole episode in each stream, of `length` rows; returns steps [length, STREAMS]."""
    steps = []
    for t in range(length):
        ids = start + t * STREAMS + np.arange(STREAMS)
        columns = {
            "obs": np.repeat(ids[:, None], 3, 1),
            "reward": ids,
            "action": (ids % 4).astype(np.uint8),
            "id": ids,
        }
        steps.append(
            writer.append(
                columns, np.full(STREAMS, t == 0), np.full(STREAMS, length > 1 and t == length - 1)
            )
        )
    writer.flush()
    return np.stack(steps)


def test_updates_of_evicted_items_reach_nobody() -> None:
    with tables(ITEMS["dqn"], capacity=60) as (table, _):
        writer = table.writer(STREAMS)
        steps = episode(writer, 10, 0)
        everyone = np.arange(STREAMS)
        writer.add_items(everyone, steps[0], np.ones(STREAMS))
        writer.flush()
        old = np.unique(table.sample(100).keys)
        for number in range(1, 5):
            steps = episode(writer, 10, number * 30)
            writer.add_items(everyone, steps[0], np.ones(STREAMS))
            writer.flush()
        assert table.update_priorities(old, np.full(len(old), 99.0)) == (0, len(old))
        batch = table.sample(100)
        assert not np.isin(batch.keys, old).any()
        np.testing.assert_allclose(batch.probabilities, 1 / batch.item_count, rtol=1e-5)


def test_a_stream_is_resumed_by_another_client() -> None:
    server = native.Server(["memory:"])
    item = ITEMS["dqn"]
    first = Client.in_process(server, name="first")
    spec = {"columns": COLUMNS, "item": item, "capacity": 200, "sampler": SAMPLER}
    oracle = OracleTable(COLUMNS, item, 200, SAMPLER)
    both = Both(first.table("t", **spec), oracle)
    envs, _ = make_envs(EnvConfig(id=TOY, kwargs={"longest": 9}), STREAMS)
    rows = envs.reset(3)
    everyone = np.arange(STREAMS)
    for tick in range(40):
        action = np.full(STREAMS, tick % 4)
        steps = both.append(rows, action)
        both.add_items(everyone, steps, np.ones(STREAMS))
        if tick == 20:  # in the middle of episodes, with items that wait for rows
            second = Client.in_process(server, name="second")
            table = second.table("t", **spec)
            resumed = table.writer(STREAMS, resume=both.leases)
            both._writers = resumed, both._writers[1]
        rows = envs.step(action)[1]
    compare(table, oracle)
    envs.close()


def test_a_released_stream_retires_what_waits() -> None:
    with tables(ITEMS["dqn"], capacity=100) as (table, _):
        writer = table.writer(STREAMS)
        steps = episode(writer, 1, 0)  # an open episode of one row
        writer.add_items(np.arange(STREAMS), steps[0], np.ones(STREAMS))
        writer.flush()
        writer.release()
        writer = table.writer(STREAMS)
        steps = episode(writer, 4, 100)
        writer.add_items(np.arange(STREAMS), steps[0], np.ones(STREAMS))
        writer.flush()
        assert set(table.sample(50).views["id"].tolist()) == {100, 101, 102}
