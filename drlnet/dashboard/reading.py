"""Reads flat readings: names with dots, values that are numbers, texts or histograms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeGuard

Reading = Mapping[str, Any]


class Histogram(Protocol):
    """A histogram of durations, as the client reads it."""

    @property
    def count(self) -> int:
        """How many were recorded."""

    @property
    def mean_us(self) -> float:
        """Their mean."""

    @property
    def max_us(self) -> float:
        """The longest."""

    @property
    def buckets(self) -> Sequence[tuple[float, int]]:
        """(middle of a bucket in us, how many fell into it), ascending, without empty ones."""

    def percentile_us(self, q: float) -> float:
        """The duration under which a share q lies."""

    def since(self, earlier: Any) -> Any:
        """What was recorded since an earlier reading of the same histogram."""

    def merged(self, other: Any) -> Any:
        """Both together."""


def is_histogram(value: Any) -> TypeGuard[Histogram]:
    """Whether a value is a histogram, the native one or another."""
    return hasattr(value, "percentile_us")  # isinstance() of a protocol takes 30 times as long


def peers(reading: Reading) -> list[str]:
    """The clients that the server is in session with."""
    return _named(reading, "peer.", ".transport")


def tables(reading: Reading) -> list[str]:
    """The server's tables."""
    return _named(reading, "table.", ".capacity")


def transports(reading: Reading) -> list[str]:
    """What carries frames at the server: "udp", "dpdk:local", ..."""
    return _named(reading, "transport.", ".clients")


def operations(reading: Reading) -> list[str]:
    """The kinds of requests that the server has answered."""
    return _named(reading, "server.", ".handling")


def _named(reading: Reading, scope: str, mark: str) -> list[str]:
    # By a key that each of them has: a name may itself hold dots.
    return [
        key[len(scope) : -len(mark)]
        for key in reading
        if key.startswith(scope) and key.endswith(mark)
    ]


def clients(reading: Reading) -> dict[str, dict[str, Any]]:
    """What each client reported: {"actor-0": {"env_steps": 10, "stage.env_s": 1.5}, ...}."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in reading.items():
        scope, _, rest = key.partition(".")
        name, _, leaf = rest.partition(".")  # a client's name has no dots
        if scope == "client" and name and leaf:
            found.setdefault(name, {})[leaf] = value
    return found


def number(value: Any) -> float:
    """The value as a float; NaN for what is absent or no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value)


def add(values: Iterable[float]) -> float:
    """The sum of those that are known; NaN when none is."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) if known else math.nan


def average(values: Iterable[float]) -> float:
    """The mean of those that are known; NaN when none is."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def capped(share: float) -> float:
    """A share of time that was measured a little too long, or of several requests at once."""
    return share if math.isnan(share) else min(1.0, share)


def total(parts: Iterable[Mapping[str, Any]], key: str) -> float:
    """The sum of one figure over clients, of those that report it; NaN when none does."""
    return add(number(part.get(key)) for part in parts)


def mean(parts: Iterable[Mapping[str, Any]], key: str) -> float:
    """The mean of one figure over the clients that report it; NaN when none does."""
    return average(number(part.get(key)) for part in parts)
