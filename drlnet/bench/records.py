"""What every benchmark writes: the machine, the command, and a record per measurement."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from drlnet import __version__
from drlnet.bench.distance import CoreDistance
from drlnet.errors import cannot_write
from drlnet.metrics.host import host_facts, source_commit
from drlnet.metrics.whole import write_whole

Key = tuple[str, str, str]  # subject, operation, workload


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
            suite,
            subject,
            workload,
            op,
            float(p50),
            float(p99),
            rate,
            len(rounds),
            float(p999),
            None if operation_bytes is None else rate * operation_bytes,
            oversubscribed,
            float(by_round[:, 0].min()),
            float(by_round[:, 0].max()),
            tuple(map(Round, rounds, *by_round.T[:2].tolist(), means)),
        )

    def p50_by_round(self) -> dict[int, float]:
        """In microseconds, by the number of the round."""
        return {round.number: round.p50_us for round in self.by_round}

    def p99_by_round(self) -> dict[int, float]:
        """The same of the 99th percentile."""
        return {round.number: round.p99_us for round in self.by_round}

    def mean_by_round(self) -> dict[int, float]:
        """The same of the mean."""
        return {round.number: round.mean_us for round in self.by_round}

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

    def to_json(self, indent: int | None = None) -> str:
        """{"machine": {...}, "command": "...", "records": [...], ...}, on one line by default.

        "core_round_trips", beside the machine, where the cores' distance was looked at; of drlnet
        the "version", and the "commit" where it runs from a checkout.
        """
        command = " ".join(["drlnet", *sys.argv[1:]])
        seen = self.distance.in_words() != ""
        commit = source_commit()
        return json.dumps(
            {
                "machine": host_facts(),
                **({"core_round_trips": self.distance.to_dict()} if seen else {}),
                "command": command,
                "version": __version__,
                **({"commit": commit} if commit else {}),
                "records": [record.to_dict() for record in self.records],
                **self.more,
            },
            indent=indent,
        )

    def write(self, path: Path) -> None:
        """The same as a file. ConfigError when it cannot be written; one that was there stays."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, f"{self.to_json(indent=1)}\n".encode())
        except OSError as error:
            raise cannot_write(path, error) from error
