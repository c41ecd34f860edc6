"""A server that keeps its state, and a table in it that can be told apart row by row."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from system.command import Command, command

from drlnet.client import Client, Column, Item, Table, View

STREAMS = 4
DEADLINE_S = 60.0


def free_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return f"udp://127.0.0.1:{one.getsockname()[1]}"


@contextmanager
def serving(folder: Path, address: str, *args: str) -> Iterator[Command]:
    with command(folder, "serve", "--listen", address, "--state", "state", *args) as server:
        server.wait_for("ready")
        yield server


def open_table(client: Client, pixels: int = 100, **settings: Any) -> Table:
    return client.table(
        "replay",
        columns={"x": Column("int64"), "image": Column("uint8", (pixels,))},
        item=Item({"x": View("x", (-1, 2)), "image": View("image", 0)}),
        **{"capacity": 5000, **settings},
    )


class Filling:
    """Appends numbered rows, row t of stream s being s * 10^6 + t, with priority 1 + t % 7."""

    def __init__(self, table: Table, flush_rows: int = 64, pixels: int = 100):
        self.pixels = pixels
        self.writer = table.writer(STREAMS, flush_rows=flush_rows, timeout=DEADLINE_S)
        self.t = 0

    def append(self, steps: int) -> None:
        for _ in range(steps):
            first, last = self.t % 50 == 0, self.t % 50 == 49
            x = np.arange(STREAMS) * 10**6 + self.t
            image = np.repeat((x % 251).astype(np.uint8), self.pixels).reshape(STREAMS, -1)
            number = self.writer.append(
                {"x": x, "image": image}, np.full(STREAMS, first), np.full(STREAMS, last)
            )
            if not last:
                priorities = np.full(STREAMS, 1.0 + self.t % 7)
                self.writer.add_items(np.arange(STREAMS), number, priorities)
            self.t += 1


def items_of(table: Table) -> dict[int, tuple[float, bytes]]:
    """Priority and views of each item, by the number that its row has."""
    keys = np.sort(table.new_priorities().keys)
    found = {}
    for begin in range(0, len(keys), 4000):
        batch = table.read_items(keys[begin : begin + 4000])
        for i in range(len(batch.keys)):
            views = batch.views["x"][i].tobytes() + batch.views["image"][i].tobytes()
            x = int(batch.views["x"][i][1])
            found[x] = (float(batch.probabilities[i]), views + bytes([int(batch.length[i])]))
    return found


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def on_disk(client: Client) -> bool:
    return bool(client.stats()["state.behind_s"] == 0)
