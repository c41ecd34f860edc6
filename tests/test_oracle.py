"""The oracle itself, on cases small enough to check by eye."""

from __future__ import annotations

import numpy as np
from oracle import OracleTable, OracleWriter

from drlnet.client import Column, Item, Sampler, View


def table(
    item: Item, capacity: int = 100, exponent: float = 1.0
) -> tuple[OracleTable, OracleWriter]:
    made = OracleTable({"x": Column("float32")}, item, capacity, Sampler("p", exponent))
    return made, made.writer(1)


def write(writer: OracleWriter, flags: str, start: int = 0) -> None:
    """F first, L last, . between; x counts up."""
    for offset, flag in enumerate(flags):
        x = {"x": np.array([start + offset], dtype=np.float32)}
        writer.append(x, np.array([flag == "F"]), np.array([flag == "L"]))


STACK = Item({"past": View("x", (-2, 0)), "zero": View("x", (-2, 0), pad="zero")})
NEXT = Item({"next": View("x", 3, from_end=True), "ahead": View("x", (1, 3), pad="zero")})


def test_padding_before_first() -> None:
    made, writer = table(STACK)
    write(writer, "F...", 5)
    views, length = made.read(0, 1)
    assert views["past"].tolist() == [5, 5, 6] and views["zero"].tolist() == [0, 5, 6]
    assert length == 0  # nothing ahead is asked for


def test_end_of_an_episode_shortens() -> None:
    made, writer = table(NEXT)
    write(writer, "F...LF.")
    made.add_item(0, 0, 1.0)
    made.add_item(0, 2, 1.0)
    made.add_item(0, 4, 1.0)  # LAST: no item
    made.add_item(0, 6, 1.0)
    assert [made.state(0, s) for s in (0, 2, 4, 6)] == ["live", "live", "none", "pending"]
    views, length = made.read(0, 2)
    assert length == 2 and views["next"] == 4 and views["ahead"].tolist() == [3, 4, 0]
    views, length = made.read(0, 0)
    assert length == 3 and views["next"] == 3


def test_an_evicted_predecessor_retires() -> None:
    made, writer = table(STACK, capacity=4)
    write(writer, "F.....")
    made.add_item(0, 3, 1.0)
    made.add_item(0, 4, 1.0)
    assert made.state(0, 3) == "retired" and made.state(0, 4) == "live"  # rows 2 to 5 are there


def test_a_broken_episode_retires_what_waits() -> None:
    made, writer = table(NEXT)
    write(writer, "F...")
    for step in (0, 2):
        made.add_item(0, step, 1.0)
    write(writer, "F", 4)
    assert made.state(0, 0) == "live" and made.state(0, 2) == "retired"


def test_period_and_repeats() -> None:
    made, writer = table(Item({"x": View("x", 0)}, period=3))
    write(writer, "F......")
    for step in range(7):
        made.add_item(0, step, 1.0)
        made.add_item(0, step, 9.0)
    assert made.live() == [(0, 0), (0, 3), (0, 6)] and made.items_created == 3
    assert made.items[0, 0].priority == 1.0


def test_probabilities_and_updates() -> None:
    made, writer = table(Item({"x": View("x", 0)}), exponent=0.5)
    write(writer, "F..")
    made.add_item(0, 0, 4.0)
    made.add_item(0, 1, None)  # the running maximum
    assert made.probabilities() == {(0, 0): 0.5, (0, 1): 0.5}
    assert made.update_priorities(np.array([0, 2]), np.array([1.0, 5.0])) == (1, 1)
    batch = made.sample(300)
    assert np.isclose(batch.probabilities[batch.keys == 0], 1 / 3).all()
    assert (batch.keys == 0).sum() in (99, 100, 101) and batch.item_count == 2
    assert made.sample(10).views["x"].shape == (10,)
