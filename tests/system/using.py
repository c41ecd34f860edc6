"""A client of a server of two shards: writes to both, draws, publishes, says what it saw."""

from __future__ import annotations

import json
import sys

import numpy as np

from drlnet import Client, Column, Item, View


def use(address: str) -> None:
    """Every part of the client once; the last line of standard output is the server's figures."""
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
    use(sys.argv[1])
