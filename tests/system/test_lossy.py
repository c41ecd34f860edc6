"""Clients behind a bad network: every row arrives once, and what is lost is found out soon."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from system.proxy import Plan, lossy

from drlnet import Client, Column, Item, Table, View

ROWS, STREAMS, BATCH, DRAWS = 4000, 4, 256, 60
COLUMNS = {"x": Column("int64", (128,))}
ITEM = Item({"x": View("x")}, boundary="cross")


def open_table(client: Client) -> Table:
    return client.table("t", columns=COLUMNS, item=ITEM, capacity=2 * ROWS * STREAMS)


def write(table: Table) -> None:
    """Rows of one number each: the stream's ordinal and its step."""
    first, last = np.zeros((2, STREAMS), bool)
    with table.writer(STREAMS) as writer:
        for step in range(ROWS):
            numbers = writer.ordinals * ROWS + step
            rows = np.repeat(numbers[:, None], 128, axis=1)
            first[:] = step == 0
            writer.add_items(np.arange(STREAMS), writer.append({"x": rows}, first, last))


def draw(table: Table) -> None:
    stream = table.stream(BATCH, depth=2)
    for _ in range(DRAWS):
        rows = next(stream).views["x"]
        assert np.all(rows == rows[:, :1])
    stream.close()


@pytest.mark.parametrize(
    "plan",
    [
        Plan(drop=0.01),
        Plan(drop=0.05, double=0.02, reorder=0.1),
        Plan(reorder=0.5, double=0.3),
        Plan(drop=0.15, reorder=0.5, double=0.3),
    ],
    ids=str,
)
def test_rows_arrive_once(address: str, plan: Plan, tmp_path: Path) -> None:
    with lossy(address, plan, tmp_path) as through, Client(through) as client:
        table = open_table(client)
        write(table)
        draw(table)
        own = client.own_stats()
    with Client(address) as near:
        stats = near.stats()
        items = open_table(near)
        count = items.export(tmp_path / "items.npz")
    rows = np.load(tmp_path / "items.npz")["view.x"]
    assert count == stats["table.t.env_steps"] == ROWS * STREAMS
    assert np.all(rows == rows[:, :1])
    assert np.array_equal(np.sort(rows[:, 0]), np.arange(ROWS * STREAMS))  # each once
    if plan.drop:
        again, timeouts = own["retransmissions"] + own["repulls"], own["timeouts"]
        assert again > 0
        if plan.drop <= 0.05:  # else the answer to what was sent again is often lost as well
            assert timeouts < again / 2, f"{timeouts} of {again} were found out by timeouts"
