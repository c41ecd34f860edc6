"""A client of a server of two shards: writes to both, draws, publishes, says what it saw."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from drlnet import Client, Column, Item, View

_DEADLINE_S = 60.0


def use(address: str, within: Sequence[str] = ()) -> dict[str, Any]:
    """The server's figures when a process has used it; within: what executes it elsewhere."""
    used = subprocess.run(
        [*within, sys.executable, __file__, address],
        stdout=subprocess.PIPE,
        timeout=_DEADLINE_S,
        check=True,
    )
    figures: dict[str, Any] = json.loads(used.stdout)
    return figures


def main(address: str) -> None:
    """Every part of the client once; standard output is the server's figures."""
    with Client(address, name="using") as client:
        table = client.table(
            "t", columns={"x": Column("float32")}, item=Item({"x": View("x")}), capacity=100
        )
        with table.writer(3) as writer:
            for t in range(5):
                steps = writer.append({"x": np.full(3, t)}, np.full(3, t == 0), np.zeros(3, bool))
                writer.add_items(np.arange(3), steps)
            writer.flush()
            batch = table.sample(60)
            assert np.allclose(batch.probabilities, 1 / 15)
            assert set((batch.keys >> np.uint64(56)).tolist()) == {0, 1}
            assert table.update_priorities(batch.keys, np.ones(60)) == (60, 0)
        client.publish(b"params")
        assert client.fetch() == (1, b"params")
        figures = client.stats()
        numbers = {name: value for name, value in figures.items() if isinstance(value, int)}
        print(json.dumps(numbers), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
