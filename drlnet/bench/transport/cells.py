"""What is measured of a transport: operations and payloads, the same for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FRAME_BYTES = 84 * 84  # one Atari frame: "7 KB"
BATCH_ROWS = 256  # of them: 1.8 MB
PAYLOADS = {"64 B": 64, "1 KiB": 1024, "7 KB frame": FRAME_BYTES, "8 KiB": 8192}
BATCH = "1.8 MB batch"
BATCH_BYTES = BATCH_ROWS * FRAME_BYTES
_OPS = ("append", "sample", "update", "fetch")
_OP_PAYLOADS = ("64 B", "1 KiB", "7 KB frame")  # their headers leave no room for 8 KiB in a frame

Cell = tuple[str, str]  # operation, payload
CELLS: tuple[Cell, ...] = (
    *(("ping", payload) for payload in PAYLOADS),
    *((op, payload) for op in _OPS for payload in _OP_PAYLOADS),
    ("sample", BATCH),
    ("sampled bytes", BATCH),
)


@dataclass(frozen=True)
class Measured:
    """One cell, measured once. Of sampled bytes, a latency is the time between two arrivals."""

    op: str
    payload: str
    latencies_us: NDArray[np.float64]

    @property
    def cell(self) -> Cell:
        return self.op, self.payload

    def to_json(self) -> dict[str, Any]:
        return {"op": self.op, "payload": self.payload, "us": self.latencies_us.tolist()}

    @staticmethod
    def from_json(values: dict[str, Any]) -> Measured:
        return Measured(values["op"], values["payload"], np.asarray(values["us"], np.float64))
