"""What an adder yields: rows that become items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Items:
    """Rows that become items, oldest first within a stream: all arrays [k]."""

    streams: npt.NDArray[np.int64]  # index 0 .. M-1
    steps: npt.NDArray[np.int64]  # of the anchors, as the append numbered them
    priorities: npt.NDArray[np.float32] | None = None  # None: the largest one seen so far
