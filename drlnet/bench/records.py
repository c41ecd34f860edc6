"""What every benchmark writes: the machine, the command, and a record per measurement."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from drlnet.metrics.host import host_facts


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

    @staticmethod
    def of(
        suite: str, subject: str, workload: str, op: str, rounds: Sequence[Sequence[float]]
    ) -> Record:
        """From the latencies of each round, in microseconds: medians over the rounds."""
        p50, p99 = np.median([np.percentile(times, [50, 99]) for times in rounds], axis=0)
        rate = float(np.median([1e6 / np.mean(times) for times in rounds]))
        return Record(suite, subject, workload, op, float(p50), float(p99), rate, len(rounds))


@dataclass
class Records:
    """The records of one invocation."""

    records: list[Record] = field(default_factory=list)

    def to_json(self) -> str:
        """{"machine": {...}, "command": "...", "records": [...]}, on one line."""
        command = " ".join(["drlnet", *sys.argv[1:]])
        return json.dumps(
            {
                "machine": host_facts(),
                "command": command,
                "records": [asdict(record) for record in self.records],
            }
        )
