"""What every benchmark writes: the machine, the command, a record per measurement, and ratios.

Ratios are taken round by round: within one both sides see much the same, and medians over all
rounds may come from different states of the machine (see machine.py).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np

from drlnet import __version__, native
from drlnet.bench.machine import CoreDistance
from drlnet.bench.setup import setup_of
from drlnet.errors import cannot_write
from drlnet.metrics.host import host_facts, source_commit
from drlnet.metrics.whole import write_whole

Key = tuple[str, str, str]  # subject, operation, workload
ByRound = Mapping[int, float]  # a figure of each round, by its number


class _OfAKey(Protocol):
    @property
    def subject(self) -> str: ...
    @property
    def op(self) -> str: ...
    @property
    def workload(self) -> str: ...


def key_of(one: _OfAKey) -> Key:
    """What a record, or what is derived from it, is about: one of a suite's is alone under it."""
    return one.subject, one.op, one.workload


@dataclass(frozen=True)
class Round:
    """What one round has of a record, which ratios are taken of."""

    number: int
    p50_us: float
    p99_us: float
    mean_us: float


@dataclass(frozen=True)
class Record:
    """One operation under one workload. Percentiles over single operations of all rounds."""

    suite: str
    subject: str
    workload: str
    op: str
    p50_us: float
    p99_us: float
    per_second: float
    rounds: int
    p999_us: float | None = None
    bytes_per_second: float | None = None  # of payload, where that is what matters
    oversubscribed: bool = False  # more threads that poll than cores
    p50_low_us: float | None = None  # the rounds' medians: least and most
    p50_high_us: float | None = None
    by_round: tuple[Round, ...] = ()

    @staticmethod
    def of(
        suite: str,
        subject: str,
        workload: str,
        op: str,
        rounds: Mapping[int, Sequence[float]],
        *,
        operation_bytes: int | None = None,
        oversubscribed: bool = False,
    ) -> Record:
        """From each round's latencies in microseconds, by its number: medians over the rounds.

        operation_bytes: payload that one operation moves, where bytes per second are of interest.
        """
        shares = [50, 99, 99.9]
        by_round = np.array([np.percentile(times, shares) for times in rounds.values()])
        means = [float(np.mean(times)) for times in rounds.values()]
        p50, p99, p999 = np.median(by_round, axis=0)
        rate = float(np.median([1e6 / mean for mean in means]))
        return Record(
            suite, subject, workload, op, float(p50), float(p99), rate, len(rounds), float(p999),
            bytes_per_second=None if operation_bytes is None else rate * operation_bytes,
            oversubscribed=oversubscribed,
            p50_low_us=float(by_round[:, 0].min()),
            p50_high_us=float(by_round[:, 0].max()),
            by_round=tuple(map(Round, rounds, *by_round.T[:2].tolist(), means)),
        )  # fmt: skip

    def of_rounds(self, figure: Literal["p50_us", "p99_us", "mean_us"] = "p50_us") -> ByRound:
        """That figure of each round, by the round's number."""
        return {round.number: getattr(round, figure) for round in self.by_round}

    def to_dict(self) -> dict[str, Any]:
        """Without the fields that say nothing."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}


class Measured(Protocol):
    """A record: latencies, or what a suite has of its own with the same first fields."""

    def to_dict(self) -> dict[str, Any]:
        """With at least suite, subject, workload and op."""


M = TypeVar("M", bound=Measured)


@dataclass
class Records(Generic[M]):
    """The records of one invocation."""

    records: list[M] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)  # what a suite derives from them
    distance: CoreDistance = field(default_factory=CoreDistance)
    addresses: Sequence[str] = ()  # beyond this machine, whose NICs the set-up then names

    def to_json(self, indent: int | None = None) -> str:
        """{"machine": {...}, "command": "...", "records": [...], ...}, on one line by default.

        "core_round_trips", beside the machine, where the cores' distance was looked at; of drlnet
        the "version", and the "commit" where it runs from a checkout, of the native core as well
        where it was built from one ("build_commit").
        """
        command = " ".join(["drlnet", *sys.argv[1:]])
        seen = self.distance.in_words() != ""
        commits = {"commit": source_commit(), "build_commit": native.build_commit}
        records = [record.to_dict() for record in self.records]
        return json.dumps(
            {
                "machine": host_facts(),
                "setup": setup_of([one["subject"] for one in records], self.addresses),
                **({"core_round_trips": self.distance.to_dict()} if seen else {}),
                "command": command,
                "version": __version__,
                **{name: commit for name, commit in commits.items() if commit},
                "records": records,
                **self.more,
            },
            default=asdict,
            indent=indent,
        )

    def write(self, path: Path) -> None:
        """The same as a file. ConfigError when it cannot be written; one that was there stays."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, f"{self.to_json(indent=1)}\n".encode())
        except OSError as error:
            raise cannot_write(path, error) from error


@dataclass(frozen=True)
class OfRounds:
    """A figure that each round has: median, least and most."""

    median: float
    low: float
    high: float


def over(ours: ByRound, baseline: ByRound) -> OfRounds | None:
    """Ours over the baseline's of the same round. None where no round has both."""
    ratios = [ours[number] / baseline[number] for number in ours if number in baseline]
    return OfRounds(median(ratios), min(ratios), max(ratios)) if ratios else None


def lower_than(ours: ByRound, baseline: ByRound) -> OfRounds | None:
    """The shares by which ours is lower than the baseline of the same round: 0.3 is 30% lower."""
    ratio = over(ours, baseline)
    return OfRounds(1 - ratio.median, 1 - ratio.high, 1 - ratio.low) if ratio else None


@dataclass(frozen=True)
class Ratio:
    """A record's time over its baseline's, in the same workload: 4.0 takes four times as long.

    The median of the rounds' ratios, the least and the most. Which times (p50, or the mean) and
    which baseline is for the suite to say.
    """

    subject: str
    op: str
    workload: str
    baseline: str
    ratio: float
    low: float
    high: float


def ratios_of(
    records: Sequence[Record],
    against: Callable[[Record], Key | None],
    figure: Literal["p50_us", "p99_us", "mean_us"] = "p50_us",
) -> list[Ratio]:
    """The ratio of every record to the one that it is compared with, within one round."""
    measured = {key_of(record): record for record in records}
    found = []
    for record in records:
        key = against(record)
        base = measured.get(key) if key is not None and key != key_of(record) else None
        ratio = over(record.of_rounds(figure), base.of_rounds(figure)) if base else None
        if base is not None and ratio is not None:
            found.append(Ratio(*key_of(record), base.subject, *astuple(ratio)))
    return found
