"""Batches as a user of the client alone meets them."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from drlnet import native
from drlnet.client import Batch, Client, Column, Item, Table, View, importance_weights
from drlnet.errors import BadPriority, ConfigError


@pytest.fixture
def table() -> Table:
    """19 items of one stream, whose rows hold their step number."""
    client = Client.in_process(native.Server(["memory:"]))
    table = client.table(
        "replay",
        columns={"obs": Column("float32", (2,)), "action": Column("int64")},
        item=Item(
            {"obs": View("obs", (-1, 0)), "next_obs": View("obs", 1), "action": View("action")}
        ),
        capacity=100,
    )
    with table.writer(1) as writer:
        for step in range(20):
            values = {"obs": np.full((1, 2), step), "action": np.array([step])}
            steps = writer.append(values, [step == 0], [step == 19])
            if step < 19:
                writer.add_items([0], steps, [1.0 + step])
        with pytest.raises(BadPriority):
            writer.add_items([0], [3], [float("nan")])
        with pytest.raises(ConfigError, match="action"):
            writer.append({"obs": np.zeros((1, 2))}, [True], [False])
    return table


@pytest.fixture
def batch(table: Table) -> Batch:
    """Eight of the items."""
    return table.sample(8)


def test_views_are_tensors_on_the_same_memory(batch: Batch) -> None:
    tensors = batch.tensors()
    assert set(tensors) == {"obs", "next_obs", "action"}
    action = batch.views["action"]
    np.testing.assert_array_equal(tensors["next_obs"][:, 0].numpy(), action + 1)
    np.testing.assert_array_equal(tensors["obs"][:, 0, 1].numpy(), np.maximum(action - 1, 0))
    action[0] = 77
    assert tensors["action"][0] == 77


def test_importance_weights_follow_the_probabilities(batch: Batch) -> None:
    expected = (1.0 + batch.views["action"]) ** 0.6
    expected /= sum((1.0 + step) ** 0.6 for step in range(19))
    np.testing.assert_allclose(batch.probabilities, expected, rtol=1e-5)
    weights = importance_weights(batch, beta=0.5)
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, (expected / expected.min()) ** -0.5, rtol=1e-5)
    assert batch.item_count == 19
    np.testing.assert_array_equal(batch.age, 20 - batch.views["action"])


def test_weights_are_of_the_probabilities_that_stand_in_the_batch(batch: Batch) -> None:
    batch.probabilities = np.linspace(0.1, 0.8, 15, dtype=np.float32)[::2]
    np.testing.assert_allclose(
        importance_weights(batch, beta=1), 0.1 / batch.probabilities, rtol=1e-6
    )


def test_arrays_outlive_the_batch_its_table_and_its_client() -> None:
    server = native.Server(["memory:"])
    client = Client.in_process(server)
    table = client.table(
        "replay",
        columns={"obs": Column("float32", (1000,))},
        item=Item({"obs": View("obs")}),
        capacity=100,
    )
    with table.writer(1) as writer:
        steps = writer.append({"obs": np.full((1, 1000), 7)}, [True], [False])
        writer.add_items([0], steps)
    stream = table.stream(64, depth=1)
    kept = [table.sample(64).views["obs"], next(stream).views["obs"]]
    del client, table, writer, stream, server
    gc.collect()
    others = [np.zeros(64_000, np.float32) for _ in range(8)]  # where memory was given back
    assert all((array == 7).all() for array in kept)
    assert not any(np.shares_memory(array, other) for array in kept for other in others)


def test_a_stream_s_batches_share_arrays_but_not_figures(table: Table) -> None:
    stream = table.stream(8, depth=0)  # one buffer
    first = next(stream)
    drawn = first.items_drawn
    second = next(stream)
    assert second.items_drawn == drawn + 8
    assert first.items_drawn == drawn
    assert second.keys is first.keys
    assert set(second.views) == {"obs", "next_obs", "action"}


def test_a_large_batch_takes_the_memory_of_one_that_nobody_holds() -> None:
    client = Client.in_process(native.Server(["memory:"]))
    table = client.table(
        "replay",
        columns={"obs": Column("uint8", (1 << 17,))},
        item=Item({"obs": View("obs")}),
        capacity=64,
    )
    with table.writer(1) as writer:
        steps = writer.append({"obs": np.full((1, 1 << 17), 7, np.uint8)}, [True], [False])
        writer.add_items([0], steps)

    def place(batch: Batch) -> int:
        return batch.views["obs"].ctypes.data

    batch = table.sample(300)
    before = place(batch)
    kept = batch.views["obs"][1:][0, :8]  # any array of it holds all of it
    tensor = table.sample(300).tensors()["obs"]
    batch = table.sample(300)
    assert len({before, place(batch), tensor.data_ptr()}) == 3
    batch.views["obs"][:] = 1
    assert (kept == 7).all()
    assert (tensor == 7).all()
    last = place(batch)
    del batch
    other = table.sample(300)
    assert place(other) == last
    assert (other.views["obs"] == 7).all()
    del other
    assert len(table.sample(301).views["obs"]) == 301  # of another size
