"""Readings as TensorBoard's scalars: tags by the catalog, over env_steps and wall time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary

from drlnet.metrics.catalog import find
from drlnet.native import HistogramReading

_PERCENTILES = {"p50_us": 0.5, "p99_us": 0.99}


class EventFile:
    """A file of events in a folder, which is made. Written by the caller's thread, an event for a
    reading: one event for each scalar, as SummaryWriter makes them, takes several times as long.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._writer = EventsWriter(str(folder / "events"))

    def add(self, reading: Mapping[str, Any], env_steps: int, time_s: float) -> None:
        """Adds what of a reading the catalog knows. time_s: seconds since the epoch."""
        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in _scalars(reading)]
        summary = Summary(value=scalars)
        self._writer.write_event(Event(wall_time=time_s, step=env_steps, summary=summary))

    def close(self) -> None:
        """Brings what was added to the disk."""
        self._writer.close()


@lru_cache(maxsize=4096)
def tag_of(name: str) -> str | None:
    """client.learner.loss becomes client.learner/loss: TensorBoard groups by what is before /.

    None for a name that the catalog does not know.
    """
    found = find(name)
    if found is None:
        return None
    metric, labels = found
    group = metric.pattern.partition(".")[0]  # server, or table.<table> and the like
    if group != "server":
        group += f".{labels[metric.labels[0]]}"
    return f"{group}/{name[len(group) + 1 :]}"


def _scalars(reading: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in reading.items():
        tag = tag_of(name)
        if tag is None or isinstance(value, str):
            continue
        if isinstance(value, HistogramReading):
            for percentile, share in _PERCENTILES.items():
                yield f"{tag}.{percentile}", value.percentile_us(share)
        elif math.isfinite(value):
            yield tag, float(value)
