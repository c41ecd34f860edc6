"""A sampler of one's own: items by their keys, and what changed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from drlnet.client import NO_KEY, Client, Column, Item, Sampler, Table, View
from drlnet.errors import ConfigError

ROWS = 400


@pytest.fixture
def table(address: str) -> Iterator[Table]:
    with Client(address) as client:
        made = client.table(
            "replay",
            columns={"x": Column("int64")},
            item=Item({"x": View("x"), "next": View("x", 1)}),
            capacity=1000,
            sampler=Sampler(priority_exponent=1.0),
        )
        with made.writer(4) as writer:
            for t in range(ROWS // 4):
                steps = writer.append(
                    {"x": np.arange(4) * 1000 + t}, np.full(4, t == 0), np.zeros(4, np.bool_)
                )
                writer.add_items(np.arange(4), steps, np.full(4, 1.0 + t))
        yield made


def test_a_sampler_of_ones_own_sees_every_item_and_reads_it(table: Table) -> None:
    changes = table.new_priorities()
    assert len(changes.keys) == ROWS - 4  # the last ones wait for their next rows
    chosen = np.argsort(changes.priorities)[-32:]
    batch = table.read_items(changes.keys[chosen])
    assert (batch.keys == changes.keys[chosen]).all()
    assert (batch.probabilities == changes.priorities[chosen]).all()
    assert (batch.views["x"] % 1000 + 1 == changes.priorities[chosen]).all()
    assert (batch.views["next"] == batch.views["x"] + 1).all()
    assert batch.items_drawn == 0


def test_own_updates_come_back_as_they_are_stored(table: Table) -> None:
    before = table.new_priorities()
    keys = before.keys[10:20]
    table.update_priorities_async(keys, np.full(10, 7.5))
    after = table.new_priorities(before.next)
    assert after.keys.tolist() == keys.tolist()
    assert (after.priorities == 7.5).all()
    assert len(table.new_priorities(after.next).keys) == 0


def test_an_item_that_changed_often_is_named_once(table: Table) -> None:
    before = table.new_priorities()
    keys = before.keys[[3, 1, 3, 2, 1]]
    for value in (2.0, 4.0):
        table.update_priorities(keys, np.full(5, value))
    after = table.new_priorities(before.next)
    assert after.keys.tolist() == before.keys[[3, 2, 1]].tolist()
    assert (after.priorities == 4.0).all()


def test_what_is_not_held_is_marked(table: Table) -> None:
    there = table.sample(1).keys[0]
    batch = table.read_items([there, 1, NO_KEY])
    assert batch.keys.tolist() == [there, NO_KEY, NO_KEY]
    assert (batch.views["x"][1:] == 0).all()
    assert table.update_priorities(batch.keys, np.ones(3)) == (1, 2)
    for count in (0, 8192):
        with pytest.raises(ConfigError, match=f"{count} keys"):
            table.read_items(np.zeros(count, np.uint64))
