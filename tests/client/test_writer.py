"""What a writer takes, and that it arrives: rows of any memory, requests of any size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from drlnet import Client, Column, Item, Limiter, Table, View, native
from drlnet.errors import ConfigError

MakeTable = Callable[..., Table]


@pytest.fixture
def make_table() -> Iterator[MakeTable]:
    with Client.in_process(native.Server(["memory:"])) as client:

        def make(columns: dict[str, Column], capacity: int = 1000) -> Table:
            item = Item({name: View(name) for name in columns})
            return client.table("t", columns=columns, item=item, capacity=capacity)

        yield make


def _flags(count: int, value: bool) -> NDArray[np.bool_]:
    return np.full(count, value)


def _items(table: Table) -> dict[str, NDArray[Any]]:
    """All that live, in the order in which their rows came."""
    keys = np.sort(table.new_priorities().keys)
    parts = [table.read_items(keys[at : at + 4096]).views for at in range(0, len(keys), 4096)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.parametrize(
    "given",
    [
        np.arange(12.0, dtype=np.float32).reshape(4, 3),
        np.arange(12).reshape(4, 3),  # of another dtype
        np.arange(24.0, dtype=np.float32).reshape(4, 6)[:, ::2],  # with others between them
        np.asfortranarray(np.arange(12.0, dtype=np.float32).reshape(4, 3)),
        np.arange(12).reshape(4, 3).tolist(),
    ],
)
def test_rows_may_lie_anywhere(make_table: MakeTable, given: Any) -> None:
    table = make_table({"x": Column("float32", (3,)), "y": Column("int16")})
    with table.writer(4) as writer:
        steps = writer.append(
            {"y": np.arange(8)[::2], "x": given}, [True] * 4, _flags(8, False)[::2]
        )
        writer.add_items(np.arange(8)[::2] // 2, steps, [1.0, 2.0, 3.0, 4.0])
    items = _items(table)
    assert np.array_equal(items["x"], np.asarray(given, np.float32))
    assert items["y"].tolist() == [0, 2, 4, 6]


def test_rows_that_fill_many_requests(make_table: MakeTable) -> None:
    # A request holds 8 of them; of a step, a part of each shorter run between those left out.
    streams, size = 45, 30_000
    table = make_table({"stream": Column("int32"), "rows": Column("uint8", (size,))})
    masks = [_flags(streams, True), np.arange(streams) % 10 != 3, np.arange(streams) >= 40]
    expected = []
    with table.writer(streams, flush_rows=1000, flush_interval_s=1e6) as writer:
        for step, mask in enumerate(masks):
            values = (np.arange(streams) + 50 * step).astype(np.uint8)
            columns = {
                "stream": np.arange(streams),
                "rows": np.repeat(values, size).reshape(streams, size),
            }
            none = _flags(streams, False)
            steps = writer.append(columns, _flags(streams, step == 0), none, mask)
            assert np.array_equal(steps >= 0, mask)
            present = np.flatnonzero(mask)
            writer.add_items(present, steps[present])
            expected += [(stream, values[stream]) for stream in present]
        writer.flush()
        leases = writer.leases
    assert [lease.next_step for lease in leases] == np.sum(masks, 0).tolist()
    items = _items(table)
    assert np.all(items["rows"] == items["rows"][:, :1])
    found = zip(items["stream"].tolist(), items["rows"][:, 0].tolist(), strict=True)
    assert sorted(found) == sorted(expected)


def test_more_streams_and_items_than_a_request_holds(make_table: MakeTable) -> None:
    streams = 12_000
    table = make_table({"x": Column("int32")}, capacity=40_000)
    with table.writer(streams) as writer:
        steps = writer.append({"x": np.arange(streams)}, _flags(streams, True), [False] * streams)
        writer.add_items(np.arange(streams), steps)
    assert np.array_equal(np.sort(_items(table)["x"]), np.arange(streams))


@pytest.mark.parametrize(
    ("streams", "samples_per_insert", "rows"),
    [(1, 0, 64), (8, 0, 64), (50, 0, 400), (300, 0, 600), (50, 1, 100)],
)
def test_steps_of_all_streams_travel_together(
    streams: int, samples_per_insert: float, rows: int
) -> None:
    with Client.in_process(native.Server(["memory:"])) as client:
        limiter = Limiter(samples_per_insert=samples_per_insert, error_buffer=1)
        column, item = {"x": Column("int8")}, Item({"x": View("x")})
        table = client.table("t", columns=column, item=item, capacity=1000, limiter=limiter)
        with table.writer(streams, flush_interval_s=1e6) as writer:
            for step in range(rows // streams):
                assert client.stats()["table.t.rows"] == 0
                flags = _flags(streams, step == 0), _flags(streams, False)
                writer.append({"x": np.zeros(streams, np.int8)}, *flags)
            assert client.stats()["table.t.rows"] == rows


@pytest.mark.parametrize(
    ("columns", "first", "cause"),
    [
        ({"x": np.zeros(2)}, np.ones(2), "'y' is missing"),
        ({"x": np.zeros(2), "y": np.zeros((2, 3)), "z": np.zeros(2)}, np.ones(2), "no column z"),
        ({"x": np.zeros(2), "y": np.zeros((3, 2))}, np.ones(2), r"'y' has shape \(3, 2\)"),
        ({"x": np.zeros(1), "y": np.zeros((2, 3))}, np.ones(2), r"'x' has shape \(1,\)"),
        ({"x": np.zeros(2), "y": np.zeros((2, 3))}, np.ones(3), r"'first' has shape \(3,\)"),
    ],
)
def test_what_does_not_fit_is_refused(
    make_table: MakeTable, columns: dict[str, Any], first: Any, cause: str
) -> None:
    table = make_table({"x": Column("float32"), "y": Column("float32", (3,))})
    with table.writer(2) as writer:
        with pytest.raises(ConfigError, match=cause):
            writer.append(columns, first, np.zeros(2))
        assert [lease.next_step for lease in writer.leases] == [0, 0]


def test_an_append_that_the_limiter_holds_may_wait_until_its_caller_has_enough() -> None:
    seconds: list[float] = []

    def held(waited: float) -> None:
        seconds.append(waited)
        if len(seconds) == 2:
            raise InterruptedError("enough")

    with Client.in_process(native.Server(["memory:"])) as client:
        limiter = Limiter(samples_per_insert=1, error_buffer=2)
        column, item = {"x": Column("int8")}, Item({"x": View("x")})
        table = client.table("t", columns=column, item=item, capacity=1000, limiter=limiter)
        writer = table.writer(1, flush_rows=1, timeout=0.2, held=held)
        with pytest.raises(InterruptedError, match="enough"):  # not a ReplayTimeout after 0.2 s
            for step in range(50):
                steps = writer.append({"x": [0]}, [step == 0], [False])
                writer.add_items([0], steps)
        assert seconds == pytest.approx([1.0, 2.0], abs=0.5)
        stored = client.stats()["table.t.rows"]
        table.sample(2)
        assert client.stats()["table.t.rows"] > stored  # what was held is not lost


def test_an_array_that_its_column_would_wrap_or_cut_is_refused(make_table: MakeTable) -> None:
    table = make_table({"x": Column("uint8"), "y": Column("int32"), "z": Column("bool")})
    with table.writer(1) as writer:
        row = {"x": [7], "y": np.array([-8]), "z": np.array([1])}
        steps = writer.append(row, [True], [False])
        writer.add_items([0], steps)
        with pytest.raises(ConfigError, match="column 'x' is uint8, and was given int64"):
            writer.append({**row, "x": np.array([300])}, [False], [False])
        with pytest.raises(ConfigError, match="column 'y' is int32, and was given float32") as info:
            writer.append({**row, "y": np.array([0.5], np.float32)}, [False], [False])
        assert '.astype("int32")' in info.value.remedy
        with pytest.raises(ConfigError, match="column 'x' is uint8, and was given float32"):
            writer.append({**row, "x": torch.tensor([0.5])}, [False], [False])
        with pytest.raises(ConfigError, match=r"'x': RuntimeError.*requires grad"):
            writer.append({**row, "x": torch.ones(1, requires_grad=True)}, [False], [False])
    assert [view.tolist() for view in _items(table).values()] == [[7], [-8], [True]]
