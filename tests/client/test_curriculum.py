"""The curriculum sampler through a client, against a numpy reference of its equations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from served import serving

from drlnet import Client, Column, Item, Limiter, Sampler, Table, View, Writer, native

CAPACITY = 40
FRESH, COVERAGE = 0.4, 0.7


class Reference:
    """Errors and draws of the newest CAPACITY items, by number; item `number` has x = number."""

    def __init__(self) -> None:
        self.first = 0
        self.errors = np.empty(0)
        self.draws = np.empty(0, np.int64)

    def insert(self, error: float) -> None:
        gone = max(0, len(self.errors) + 1 - CAPACITY)
        self.first += gone
        self.errors = np.append(self.errors, error)[gone:]
        self.draws = np.append(self.draws, 0)[gone:]

    def chances(self, batch: int) -> np.ndarray:
        stored = self.errors * (1.0 + self.draws) ** -COVERAGE
        fresh = self.draws == 0
        share = min(FRESH, fresh.sum() / batch)
        return (1 - share) * stored / stored.sum() + share * fresh / max(1, fresh.sum())


def open_table(client: Client, options: dict[str, float], limiter: Limiter | None = None) -> Table:
    return client.table(
        "t",
        columns={"x": Column("int64")},
        item=Item({"x": View("x")}),
        capacity=CAPACITY,
        sampler=Sampler("curriculum", priority_exponent=1.0, options=options),
        limiter=limiter,
    )


def write(writer: Writer, number: int, error: float) -> None:
    streams = np.arange(writer.num_streams)
    first = np.full(len(streams), number == 0)
    x = number * len(streams) + streams
    steps = writer.append({"x": x}, first, np.zeros(len(streams), np.bool_))
    writer.add_items(streams, steps, np.full(len(streams), error))
    writer.flush()


@pytest.mark.parametrize("batch", [1, 6])
def test_draws_follow_the_equations_over_updates_and_evictions(batch: int) -> None:
    rng = np.random.default_rng(batch)
    reference = Reference()
    counts, expected = np.zeros((batch, CAPACITY)), np.zeros(CAPACITY)
    with Client.in_process(native.Server(["memory:"])) as client:
        table = open_table(client, {"fresh": FRESH, "coverage": COVERAGE})
        with table.writer(1) as writer:
            for turn in range(3000):
                if turn < CAPACITY or turn % 3 == 0:
                    error = float(np.float32(rng.random() + 0.05))
                    write(writer, reference.first + len(reference.errors), error)
                    reference.insert(error)
                chances = reference.chances(batch)
                drawn = table.sample(batch)
                items = drawn.views["x"] - reference.first
                np.testing.assert_allclose(drawn.probabilities, chances[items], rtol=1e-5)
                np.add.at(reference.draws, items, 1)
                # By place in the ring: what lies there comes and goes.
                places = (reference.first + np.arange(len(chances))) % CAPACITY
                np.add.at(expected, places, chances)
                counts[np.arange(batch), drawn.views["x"] % CAPACITY] += 1
                if turn % 2 == 0:
                    keys, at = np.unique(drawn.keys, return_index=True)
                    errors = (rng.random(len(keys)) + 0.05).astype(np.float32)
                    assert table.update_priorities(keys, errors) == (len(keys), 0)
                    reference.errors[items[at]] = errors
    chi_square = ((counts - expected) ** 2 / expected).sum(axis=1)
    assert (chi_square < 96).all()  # 40 degrees of freedom, 2 in a million


@pytest.fixture
def sharded() -> Iterator[Client]:
    with serving(2) as address, Client(address, poll="block") as client:
        yield client


def test_chances_of_several_shards_weigh_every_item_alike(sharded: Client) -> None:
    """The mean over draws of [x was drawn] / chance is 1 for each item, as weights rest on."""
    rng = np.random.default_rng(1)
    table = open_table(sharded, {"fresh": FRESH, "coverage": COVERAGE})
    per_draw = np.zeros(CAPACITY)
    squares = np.zeros(CAPACITY)
    draws, batch = 1500, 8
    with table.writer(2) as writer:
        number = 0
        for _ in range(CAPACITY // 2):
            write(writer, number, float(rng.random() + 0.1))
            number += 1
        for turn in range(draws):
            if turn % 4 == 0:  # the oldest item of each shard makes room
                write(writer, number, float(rng.random() + 0.1))
                number += 1
            drawn = table.sample(batch)
            place = drawn.views["x"] % CAPACITY
            assert (drawn.views["x"] >= 2 * number - CAPACITY).all()
            weights = 1 / drawn.probabilities.astype(float) / batch
            np.add.at(per_draw, place, weights)
            np.add.at(squares, place, weights**2)
            keys = np.unique(drawn.keys)
            table.update_priorities_async(keys, rng.random(len(keys)) + 0.1)
    assert (np.abs(per_draw - draws) < 5 * np.sqrt(squares)).all()


def test_useless_items_retire_and_min_size_of_them_stay() -> None:
    with Client.in_process(native.Server(["memory:"])) as client:
        table = open_table(client, {"useless": 0.5, "fresh": 0.95}, Limiter(min_size=10))
        with table.writer(1) as writer:
            for number in range(30):
                write(writer, number, 1.0)
        seen = table.sample(600)
        keys, at = np.unique(seen.keys, return_index=True)
        x = seen.views["x"][at]
        assert len(keys) == 30
        errors = np.where(x % 2 == 0, 1.0, 1e-3)
        assert table.update_priorities(keys, errors) == (30, 0)
        batch = table.sample(200)
        assert batch.item_count == 15 and (batch.views["x"] % 2 == 0).all()
        stats = client.stats()
        assert (stats["table.t.items_retired"], stats["table.t.rows"]) == (15, 30)
        assert table.update_priorities(keys[x % 2 == 1], np.ones(15)) == (0, 15)
        # All but one are useless now.
        live = keys[x % 2 == 0]
        table.update_priorities(live, np.where(np.arange(15) == 0, 1.0, 1e-6))
        assert table.sample(20).item_count == 10
