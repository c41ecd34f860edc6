"""Random episodes, written to a table and to the naive oracle, and what both then hold compared."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import ArrayLike
from oracle import OracleTable, OracleWriter
from toy import TOY

from drlnet.client import Batch, Client, Column, Item, Mirror, Sampler, Table, View, Writer
from drlnet.config import EnvConfig
from drlnet.envs import Rows, make_envs, ticks

NEEDS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
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


class OnDevice:
    """A mirror whose rows lie on a torch device, whole or in pieces of a staging buffer."""

    def __init__(self, mirror: Mirror):
        self._mirror = mirror
        self.update_priorities, self.stats = mirror.update_priorities, mirror.stats

    def sample(self, n: int) -> Batch:
        batch = self._mirror.sample(n)
        assert all(isinstance(view, torch.Tensor) for view in batch.views.values())
        batch.views = {name: view.cpu().numpy() for name, view in batch.views.items()}
        return batch


class Drawn(Protocol):
    """What is drawn from: a table, or its mirror."""

    def sample(self, n: int) -> Batch: ...

    def update_priorities(self, keys: ArrayLike, priorities: ArrayLike) -> tuple[int, int]: ...


class Both:
    """Writes the same to both tables; a flush each time, so that rows lie in one order."""

    def __init__(self, table: Table, oracle: OracleTable):
        self.oracle = oracle
        self._writers: tuple[Writer, OracleWriter] = table.writer(STREAMS), oracle.writer(STREAMS)
        self.leases = self._writers[0].leases

    def append(self, rows: Rows, action: np.ndarray) -> np.ndarray:
        present = np.ones(STREAMS, np.bool_) if rows.mask is None else rows.mask
        ids = len(self.oracle.rows) + np.cumsum(present) - 1
        columns = {"obs": rows.obs, "reward": rows.reward, "action": action.astype(np.uint8)}
        columns["id"] = ids
        steps = [w.append(columns, rows.first, rows.last, rows.mask) for w in self._writers]
        np.testing.assert_array_equal(*steps)
        self._writers[0].flush()
        return steps[0]

    def add_items(self, streams: np.ndarray, steps: np.ndarray, priorities: np.ndarray) -> None:
        for writer in self._writers:
            writer.add_items(streams, steps, priorities)
        self._writers[0].flush()


def compare(table: Drawn, oracle: OracleTable) -> dict[int, int]:
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


def play(
    table: Table,
    oracle: OracleTable,
    longest: int,
    mode: AutoresetMode,
    drawn: Drawn | None = None,
) -> None:
    drawn = drawn or table
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
            known = compare(drawn, oracle)
            update_some(drawn, oracle, known, rng)
            compare(drawn, oracle)
        step = envs.step(action)
    assert len(oracle.rows) > 100  # so that rows were evicted
    envs.close()


def update_some(
    table: Drawn, oracle: OracleTable, known: dict[int, int], rng: np.random.Generator
) -> None:
    ids = [i for i in known if rng.random() < 0.5]
    if not ids:
        return
    priorities = rng.random(len(ids)) + 0.1
    applied = table.update_priorities([known[i] for i in ids], priorities)
    assert applied == oracle.update_priorities(np.array(ids), priorities) == (len(ids), 0)
