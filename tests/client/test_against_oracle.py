"""The native table, through the client, against the naive oracle: every live item and no other,
each with the views, length and probability that it should have.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from oracle import OracleTable, OracleWriter
from toy import TOY

from drlnet import native
from drlnet.client import Client, Column, Item, Sampler, Table, View, Writer
from drlnet.config import EnvConfig
from drlnet.envs import Rows, make_envs, ticks

COLUMNS = {
    "obs": Column("float32", (3,)),
    "reward": Column("float32"),
    "action": Column("uint8"),
    "id": Column("int64"),  # of the row, everywhere: tells which item was drawn
}
ITEMS = {
    "dqn": Item(
        {
            "id": View("id", 0),
            "obs": View("obs", 0),
            "next_obs": View("obs", 3, from_end=True),
            "reward": View("reward", (1, 3), pad="zero"),
        }
    ),
    "stacked": Item(
        {
            "id": View("id", 0),
            "obs": View("obs", (-3, 0)),
            "next_obs": View("obs", (-1, 2), from_end=True),
            "action": View("action", (0, 2), pad="zero"),
        }
    ),
    "sequences": Item({"id": View("id", 0), "obs": View("obs", (0, 4), pad="zero")}, period=2),
    "unrolls": Item({"id": View("id", 0), "obs": View("obs", (0, 4))}, boundary="cross"),
}
SAMPLER = Sampler(priority_exponent=0.5)
STREAMS = 3


def opened(client: Client, item: Item, capacity: int) -> tuple[Table, OracleTable]:
    table = client.table("t", columns=COLUMNS, item=item, capacity=capacity, sampler=SAMPLER)
    return table, OracleTable(COLUMNS, item, capacity, SAMPLER)


@contextmanager
def tables(item: Item, capacity: int) -> Iterator[tuple[Table, OracleTable]]:
    with Client.in_process(native.Server(["memory:"])) as client:
        yield opened(client, item, capacity)


class Both:
    """Writes the same to both tables; a flush each time, so that rows lie in one order."""

    def __init__(self, table: Table, oracle: OracleTable):
        self.oracle = oracle
        self._writers: tuple[Writer, OracleWriter] = table.writer(STREAMS), oracle.writer(STREAMS)
        self.leases = self._writers[0].leases

    def append(self, rows: Rows, action: np.ndarray) -> np.ndarray:
        present = np.ones(STREAMS, np.bool_) if rows.mask is None else rows.mask
        ids = len(self.oracle.rows) + np.cumsum(present) - 1
        columns = {"obs": rows.obs, "reward": rows.reward, "action": action, "id": ids}
        steps = [w.append(columns, rows.first, rows.last, rows.mask) for w in self._writers]
        np.testing.assert_array_equal(*steps)
        self._writers[0].flush()
        return steps[0]

    def add_items(self, streams: np.ndarray, steps: np.ndarray, priorities: np.ndarray) -> None:
        for writer in self._writers:
            writer.add_items(streams, steps, priorities)
        self._writers[0].flush()


def compare(table: Table, oracle: OracleTable) -> dict[int, int]:
    """Draws until every item was seen; returns the native key of each live item by its row's id."""
    expected = oracle.probabilities()
    if not expected:
        return {}
    batch = table.sample(int(8 / min(expected.values())))
    assert batch.item_count == len(expected)
    assert batch.env_steps == sum(not row.last for row in oracle.rows)
    keys: dict[int, int] = {}
    for index, row_id in enumerate(batch.views["id"].tolist()):
        if row_id in keys:
            assert keys[row_id] == batch.keys[index]
            continue
        keys[row_id] = int(batch.keys[index])
        row = oracle.rows[row_id]
        views, length = oracle.read(row.stream, row.step)
        assert batch.length[index] == length
        assert batch.probabilities[index] == pytest.approx(expected[row.stream, row.step], rel=1e-4)
        assert batch.age[index] == len(oracle.rows) - row_id
        for name, view in views.items():
            np.testing.assert_array_equal(batch.views[name][index], view, err_msg=name)
    # Strata of that width miss none: what is live was drawn.
    assert {(oracle.rows[i].stream, oracle.rows[i].step) for i in keys} == set(expected)
    return keys


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


def play(table: Table, oracle: OracleTable, longest: int, mode: AutoresetMode) -> None:
    rng = np.random.default_rng(longest)
    envs, _ = make_envs(
        EnvConfig(id=TOY, kwargs={"longest": longest}), STREAMS, autoreset_mode=mode
    )
    both = Both(table, oracle)
    step = (None, envs.reset(longest))
    for tick in range(60):
        for rows in ticks(step):
            action = rng.integers(4, size=STREAMS)
            steps = both.append(rows, action)
            # Some at once, while their windows are open; LAST rows and repeats among them.
            chosen = np.flatnonzero((steps >= 0) & (rng.random(STREAMS) < 0.8))
            both.add_items(chosen, steps[chosen], rng.random(len(chosen)) + 0.1)
        if tick % 10 == 9:
            known = compare(table, oracle)
            update_some(table, oracle, known, rng)
            compare(table, oracle)
        step = envs.step(action)
    assert len(oracle.rows) > 100  # so that rows were evicted
    envs.close()


def update_some(
    table: Table, oracle: OracleTable, known: dict[int, int], rng: np.random.Generator
) -> None:
    ids = [i for i in known if rng.random() < 0.5]
    if not ids:
        return
    priorities = rng.random(len(ids)) + 0.1
    applied = table.update_priorities([known[i] for i in ids], priorities)
    assert applied == oracle.update_priorities(np.array(ids), priorities) == (len(ids), 0)


def episode(writer: Writer, length: int, start: int) -> np.ndarray:
    """A whole episode in each stream, of `length` rows; returns steps [length, STREAMS]."""
    steps = []
    for t in range(length):
        ids = start + t * STREAMS + np.arange(STREAMS)
        columns = {
            "obs": np.repeat(ids[:, None], 3, 1),
            "reward": ids,
            "action": ids % 4,
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
