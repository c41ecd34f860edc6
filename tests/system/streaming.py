"""A process that writes two streams: leases or resumes them, appends, and waits for its end."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from drlnet import Client, Column, Item, Sampler, StreamLease, View

STREAMS = 2
EPISODE = 10  # rows, the final observation included
SPEC: dict[str, Any] = {
    "columns": {"obs": Column("float32", (2,)), "reward": Column("float32"), "id": Column("int64")},
    "item": Item(
        {
            "id": View("id"),
            "obs": View("obs", (-3, 0)),
            "next_obs": View("obs", 3, from_end=True),
            "reward": View("reward", (1, 3), pad="zero"),
        }
    ),
    "capacity": 1000,
    "sampler": Sampler(priority_exponent=0.0),
}


def append(writer: Any, step: int) -> None:
    """Row `step` of each stream, and the items that anchor there; the native writer or the
    oracle's."""
    ids = np.arange(STREAMS) * 1000 + step
    columns = {"obs": np.stack([ids, -ids], axis=1), "reward": ids / 10, "id": ids}
    first = np.full(STREAMS, step % EPISODE == 0)
    last = np.full(STREAMS, step % EPISODE == EPISODE - 1)
    steps = writer.append(columns, first, last)
    assert (steps == step).all()
    if not last[0]:
        writer.add_items(np.arange(STREAMS), steps)


def main(address: str, flushed: int, appended: int, leases: str) -> None:
    """Appends up to row `appended`, of which those below `flushed` are sent."""
    resume = [StreamLease(*lease) for lease in json.loads(leases)]
    client = Client(address, name="streaming")
    table = client.table("resumed", **SPEC)
    writer = table.writer(STREAMS, resume=resume, flush_rows=10**6, flush_interval_s=1e6)
    begun = [lease.next_step for lease in writer.leases]
    for step in range(begun[0], flushed):
        append(writer, step)
    writer.flush()
    for step in range(flushed, appended):
        append(writer, step)
    print(json.dumps({"begun": begun, "leases": writer.leases}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
