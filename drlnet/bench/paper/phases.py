"""What the processes of a measurement tell the one that started them, as JSON lines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.paper.workloads import Layout

FINISHED = "finished"  # what a learner says that stays until it is ended
CHUNK_S = 0.01  # of appends that are kept together: slices of 0.04 s and more hold several
_SAY_S = 0.5
_MOST = 2000  # latencies of a phase that are said; of more, evenly chosen ones
_MOST_OF_CHUNK = 70


def thinned(latencies_us: NDArray[np.float64], most: int = _MOST) -> list[float]:
    """At most so many of them that a line stays short, as a sample of all."""
    step = -(-len(latencies_us) // most)
    chosen: list[float] = np.round(latencies_us[:: max(1, step)], 3).tolist()
    return chosen


@dataclass(frozen=True)
class Phase:
    """One operation of the learner, one slice of it; times by the monotonic clock of the machine.

    us: none where the learner rests, and the actors are what is measured.
    """

    op: str
    layout: Layout
    batch: int
    start_s: float
    end_s: float
    us: list[float]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "layout": self.layout.value}

    @staticmethod
    def from_json(values: dict[str, Any]) -> Phase:
        fields = {name: values[name] for name in Phase.__dataclass_fields__}
        return Phase(**{**fields, "layout": Layout(values["layout"])})


@dataclass(frozen=True)
class FloorSlice:
    """What a batch's floor is made of, measured between two slices of its cells."""

    batch: int
    start_s: float
    end_s: float
    ping_us: float  # p50
    bytes_per_second: float


@dataclass(frozen=True)
class Appends:
    """What one actor stored within a short time: a latency each."""

    start_s: float
    end_s: float
    us: list[float]


Say = Callable[[Sequence[Appends]], None]


class Diary:
    """What an actor stored, said twice a second and at the end.

    To say it takes as long as many appends, of the actor and of whoever listens: said chunk by
    chunk it was most of what paced actors did, and took the learner's core from what is measured.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        self._said_s = time.monotonic()
        self._chunks: list[tuple[float, float, NDArray[np.uint64]]] = []

    def add(self, start_s: float, latencies_ns: NDArray[np.uint64]) -> None:
        """A chunk that ends now. The array stays the caller's."""
        end_s = time.monotonic()
        self._chunks.append((start_s, end_s, latencies_ns.copy()))
        if end_s - self._said_s >= _SAY_S:
            self.close()

    def close(self) -> None:
        """Says what has not been said."""
        if not self._chunks:
            return
        # Forgotten only once they are said: an interruption may come in between.
        self._say([Appends(s, e, thinned(ns / 1e3, _MOST_OF_CHUNK)) for s, e, ns in self._chunks])
        self._chunks, self._said_s = [], time.monotonic()


def during(appends: Sequence[Appends], phase: Phase, stops_s: Sequence[float] = ()) -> list[float]:
    """The latencies of appends that were begun within the phase.

    However long they took, or short phases would have only short ones. stops_s: when the actors
    were stopped, for a floor; what that reached into is nobody's.
    """
    end_s = min((stop_s for stop_s in stops_s if stop_s >= phase.start_s), default=math.inf)
    return [
        latency
        for one in appends
        if phase.start_s <= one.start_s <= phase.end_s and one.end_s <= end_s
        for latency in one.us
    ]
