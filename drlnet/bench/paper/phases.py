"""What the processes of a measurement tell the one that started them, as JSON lines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.paper.workloads import Layout

_MOST = 2000  # latencies of a line; of more, evenly chosen ones


def thinned(latencies_us: NDArray[np.float64]) -> list[float]:
    """At most so many of them that a line stays short, as a sample of all."""
    step = -(-len(latencies_us) // _MOST)
    chosen: list[float] = np.round(latencies_us[:: max(1, step)], 3).tolist()
    return chosen


@dataclass(frozen=True)
class Phase:
    """One operation of the learner, measured once; times by the monotonic clock of the machine.

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
class Appends:
    """What one actor stored within a short time: a latency each."""

    start_s: float
    end_s: float
    us: list[float]

    @staticmethod
    def from_json(values: dict[str, Any]) -> Appends:
        return Appends(values["start_s"], values["end_s"], values["us"])


def during(appends: list[Appends], phase: Phase) -> list[float]:
    """The latencies of appends that fell into the phase."""
    return [
        latency
        for one in appends
        if one.start_s >= phase.start_s and one.end_s <= phase.end_s
        for latency in one.us
    ]
