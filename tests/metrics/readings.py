"""Readings of a real server in this process, for tests of what shows or keeps them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from drlnet import Column, Item, Limiter, View, native
from drlnet.client import Client


@contextmanager
def busy_server() -> Iterator[tuple[native.Server, Client]]:
    """A server whose client "learner" has appended, drawn, updated and published."""
    server = native.Server(["memory:"])
    with Client.in_process(server, name="learner") as client:
        table = client.table(
            "replay",
            columns={"obs": Column("float32", (2,))},
            item=Item({"obs": View("obs")}),
            capacity=64,
            limiter=Limiter(min_size=1),
        )
        with table.writer(num_streams=2) as writer:
            steps = writer.append(
                {"obs": np.zeros((2, 2), np.float32)},
                first=np.ones(2, bool),
                last=np.zeros(2, bool),
            )
            writer.add_items(np.arange(2), steps)
            writer.flush()
            batch = table.sample(4)
            table.update_priorities(batch.keys, np.ones(4, np.float32))
            client.publish(b"params")
            client.report(REPORT)
            yield server, client


REPORT: Mapping[str, Any] = {
    "learner_steps": 7,
    "loss": 0.5,
    "env_steps": 20,
    "sample_wait_share": 0.25,
    "stage.learn_s": 1.5,
    "role": "learner",
    "my own": 3,
}
