"""Every registered sampler through a client: bad priorities, empty tables, the server's choice."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest

from drlnet import Client, Column, Item, Sampler, Table, View, native
from drlnet.errors import BadPriority, ConfigError, ReplayTimeout

NAMES = native.sampler_names()


def open_table(client: Client, sampler: Sampler) -> Table:
    return client.table(
        "t",
        columns={"x": Column("float32")},
        item=Item({"x": View("x")}),
        capacity=100,
        sampler=sampler,
    )


def fill(table: Table, rows: int, priorities: list[float] | None = None) -> None:
    with table.writer(1) as writer:
        for row in range(rows):
            first = np.full(1, row == 0)
            steps = writer.append({"x": np.full(1, row)}, first, np.zeros(1, np.bool_))
            given = None if priorities is None else np.array([priorities[row]])
            writer.add_items(np.zeros(1, np.int64), steps, given)


@pytest.fixture(params=NAMES)
def table(request: pytest.FixtureRequest) -> Iterator[Table]:
    with Client.in_process(native.Server(["memory:"])) as client:
        yield open_table(client, Sampler(request.param))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0])
def test_a_bad_priority_is_refused_and_changes_nothing(table: Table, bad: float) -> None:
    fill(table, 10)
    batch = table.sample(8)
    priorities = np.ones(8, np.float32)
    priorities[3] = bad
    with pytest.raises(BadPriority, match="priority 3"):
        table.update_priorities(batch.keys, priorities)
    assert table.update_priorities(batch.keys, np.ones(8, np.float32)) == (8, 0)
    assert set(table.sample(64).views["x"]) <= set(range(10))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_a_bad_priority_of_a_new_item_is_refused(table: Table, bad: float) -> None:
    with pytest.raises(BadPriority):
        fill(table, 3, [1.0, bad, 1.0])


def test_an_empty_table_is_waited_for(table: Table) -> None:
    with pytest.raises(ReplayTimeout, match="min_size"):
        table.sample(4, timeout=0.05)


def test_priorities_of_0_are_drawn(table: Table) -> None:
    fill(table, 10, [0.0] * 10)
    batch = table.sample(32)
    assert set(batch.views["x"]) <= set(range(10))
    assert np.all(batch.probabilities > 0)


def test_items_that_were_overwritten_are_not_drawn(table: Table) -> None:
    fill(table, 350, [1000.0] * 200 + [1e-3] * 150)
    drawn = table.sample(256).views["x"]
    assert drawn.min() >= 350 - 100


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_a_config_error(name: str) -> None:
    with (
        Client.in_process(native.Server(["memory:"])) as client,
        pytest.raises(ConfigError, match="'m'") as caught,
    ):
        open_table(client, Sampler(name, options={"m": 5}))
    assert caught.value.remedy


def test_the_server_may_choose_for_all_its_tables() -> None:
    server = native.Server(["memory:"], sampler="amper-fr", sampler_options={"groups": 4})
    with Client.in_process(server) as client:
        table = open_table(client, Sampler("uniform"))
        again = open_table(client, Sampler("fifo"))  # what clients ask for does not matter
        fill(table, 50, [1.0] * 49 + [1000.0])
        drawn = np.concatenate([again.sample(8).views["x"] for _ in range(200)])
    assert np.mean(drawn == 49) > 0.1  # by uniform or fifo: 0.02
