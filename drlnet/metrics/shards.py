"""One reading of a server out of those of its shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drlnet.metrics.catalog import Kind, find
from drlnet.native import HistogramReading

Value = int | float | str | HistogramReading

# What shards have each a part of. Of other gauges the largest is the server's: they tell of the
# process, or of a client that has a session with each shard.
SUMMED_GAUGES = frozenset(
    {
        *("server.memory_bytes", "server.waiting_requests", "server.request_bytes"),
        *("table.<table>.rows", "table.<table>.capacity", "table.<table>.ring_bytes"),
        *("table.<table>.saved_bytes", "state.rows_to_load"),
        *("table.<table>.streams_leased", "table.<table>.streams_orphaned"),
        *("table.<table>.live_items", "table.<table>.pending_items"),
        *("table.<table>.effective_items", "table.<table>.priority_mass"),
        "peer.<client>.outstanding_reply_bytes",
    }
)
# The process's; the poll loop's that was busy the longest; and waits for the limiter, where the
# parts of one batch wait at all shards together.
LARGEST_COUNTERS = frozenset({"server.cpu_s", "server.busy_s"})
_WAITS = (".min_size", ".samples_limit")


def add_up(readings: Sequence[Mapping[str, Any]], prefix: str = "") -> dict[str, Any]:
    """What the shards of one server say, as one server that is alone would say it.

    Counters and what is shared out are added up, histograms put together; a figure that no list of
    ours knows is the first shard's that has it. prefix: what the lists put before these names.
    """
    if len(readings) == 1:
        return dict(readings[0])
    values: dict[str, list[Any]] = {}
    for reading in readings:
        for name, value in reading.items():
            values.setdefault(name, []).append(value)
    sums = {name: _merged(prefix + name, parts) for name, parts in values.items()}
    for name in sums:
        prefix, _, last = name.rpartition(".")
        if last == "fill":
            sums[name] = _ratio(sums, f"{prefix}.rows", f"{prefix}.capacity")
        elif last == "samples_per_insert":
            sums[name] = _ratio(sums, f"{prefix}.items_drawn", f"{prefix}.items_created")
    # The shard that was busy the longest so far need not be the busiest one now.
    busy = enumerate(values.get("server.busy_s", ()))
    return sums | {f"server.shard_busy_s.{shard}": seconds for shard, seconds in busy}


def _merged(name: str, parts: Sequence[Any]) -> Any:
    if isinstance(parts[0], HistogramReading):
        merged = parts[0]
        for part in parts[1:]:
            merged = merged.merged(part)
        return merged
    if isinstance(parts[0], str):
        return next((part for part in parts if part), "")
    known = find(name)
    if known is None:
        return parts[0]
    metric = known[0]
    return sum(parts) if _adds_up(name, metric.pattern, metric.kind) else max(parts)


def _adds_up(name: str, pattern: str, kind: Kind) -> bool:
    if kind == "counter":
        waits = "limiter_wait" in pattern and name.endswith(_WAITS)
        return pattern not in LARGEST_COUNTERS and not waits
    return pattern in SUMMED_GAUGES


def _ratio(sums: Mapping[str, Any], part: str, whole: str) -> float:
    return float(sums[part]) / float(sums[whole]) if sums.get(whole) else 0.0
