"""The process in which a sampler is used: its operations, timed."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.rounds import Effort
from drlnet.bench.sampler.priorities import Floats, priorities_of
from drlnet.bench.sampler.subjects import DRAW, Loops, PeerLoops


class Drawer:
    """One sampler at a time, made and used here. Called from another process (Worker)."""

    def __init__(self, find: Callable[[], Callable[[Floats], Loops]], core: int | None) -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})
        self._make = find()
        self._loops: Loops | None = None
        gc.freeze()  # what is there by now is not looked through behind each turn

    def ready(self) -> None:
        """Returns once samplers can be made."""

    def open(self, distribution: str, size: int) -> str | None:
        """Makes the sampler over such priorities; returns what a peer's calls include."""
        self._loops = self._make(priorities_of(distribution, size))
        return self._loops.includes if isinstance(self._loops, PeerLoops) else None

    def measure(self, op: str, batch: int, effort: Effort) -> NDArray[np.float64]:
        """Latencies of one operation, us."""
        assert self._loops is not None
        loop = self._loops.draws if op == DRAW else self._loops.updates
        return effort.latencies_us(partial(loop, batch))

    def shut(self) -> None:
        """Frees the sampler; another may be made."""
        self._loops = None
        gc.collect()  # what holds itself in a cycle must not wait for later: it may be gigabytes
