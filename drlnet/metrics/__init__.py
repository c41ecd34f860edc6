"""What is measured, by which names, and what a run leaves: its folder, its host, its result."""

from drlnet.metrics.host import host_facts, seconds_since_start
from drlnet.metrics.records import RunRecords
from drlnet.metrics.result import EvalSummary, RunResult
from drlnet.metrics.run_folder import RunFolder

__all__ = [
    "EvalSummary",
    "RunFolder",
    "RunRecords",
    "RunResult",
    "host_facts",
    "seconds_since_start",
]
