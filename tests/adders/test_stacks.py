"""Stacks: the learner's views, windows over episodes' ends, and the actor's, all bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from toy import TOY

from drlnet import native
from drlnet.adders import Stacks, stack_rows, stack_view
from drlnet.client import Client, Column, Item, Sampler, View
from drlnet.config import EnvConfig
from drlnet.envs import make_envs, ticks

STREAMS, STEPS, N = 3, 400, 3
COLUMNS = {"obs": Column("float32", (3,)), "id": Column("int64"), "last": Column("bool")}


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("k", [1, 4])
def test_the_actor_sees_what_the_learner_reads(k: int, mode: AutoresetMode) -> None:
    """Of 1 to 6 steps are the episodes: shorter and longer than a stack."""
    width = 5
    stop = Item({"id": View("id"), "obs": stack_view(k), "next": stack_view(k, N, from_end=True)})
    cross = Item(
        {"id": View("id", (1 - k, width)), "obs": View("obs", (1 - k, width)),
         "last": View("last", (1 - k, width))},
        boundary="cross", period=width,
    )  # fmt: skip
    envs, _ = make_envs(EnvConfig(id=TOY), STREAMS, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    seen: list[np.ndarray] = []  # by id: the stack that the actor saw at the row
    behind: dict[int, list[int]] = {}  # id -> those of its stream, in order
    with Client.in_process(native.Server(["memory:"])) as client:
        tables = {
            name: client.table(name, columns=COLUMNS, item=item, capacity=8192,
                               sampler=Sampler("fifo"))
            for name, item in {"stop": stop, "cross": cross}.items()
        }  # fmt: skip
        writers = {name: table.writer(STREAMS) for name, table in tables.items()}
        stacks, order = Stacks(STREAMS, k), [[] for _ in range(STREAMS)]
        step = (None, envs.reset(1))
        for _ in range(STEPS):
            for rows in ticks(step):
                present = np.ones(STREAMS, bool) if rows.mask is None else rows.mask
                stacked = stacks.push(rows).obs
                ids = len(seen) + np.cumsum(present) - 1
                for stream in np.flatnonzero(present):
                    seen.append(stacked[stream].copy())
                    order[stream].append(int(ids[stream]))
                    behind[int(ids[stream])] = order[stream]
                columns = {"obs": rows.obs, "id": ids, "last": rows.last}
                for name, writer in writers.items():
                    steps = writer.append(columns, rows.first, rows.last, rows.mask)
                    anchors = present & ~rows.last
                    if name == "cross":
                        anchors = present & (steps > 0) & (steps % width == 0)
                        steps = steps - width
                    chosen = np.flatnonzero(anchors)
                    writer.add_items(chosen, steps[chosen])
            step = envs.step(rng.integers(4, size=STREAMS))
        for writer in writers.values():
            writer.flush()
        batch = tables["stop"].sample(700)
        for index, row in enumerate(batch.views["id"]):
            np.testing.assert_array_equal(batch.views["obs"][index], seen[row])
            stream = behind[int(row)]
            after = stream[stream.index(int(row)) + int(batch.length[index])]
            np.testing.assert_array_equal(batch.views["next"][index], seen[after])
        batch = tables["cross"].sample(200)
        which = stack_rows(batch.views["last"], k)
        for index, ids in enumerate(batch.views["id"]):
            frames = batch.views["obs"][index][which[index]]  # [width + 1, k, 3]
            for own, row in zip(frames, ids[k - 1 :], strict=True):
                np.testing.assert_array_equal(own if k > 1 else own[0], seen[row])
    envs.close()
