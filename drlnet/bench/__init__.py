"""Measurements of the service itself, all with one schema of records."""

from drlnet.bench.records import Record, Records
from drlnet.bench.turns import measure_turns, read_in_bulk

__all__ = ["Record", "Records", "measure_turns", "read_in_bulk"]
