"""Measurements of the service itself, all with one schema of records."""

from drlnet.bench.records import Record, Records
from drlnet.bench.turns import ALONE, BESIDE, measure_turns, read_in_bulk

__all__ = ["ALONE", "BESIDE", "Record", "Records", "measure_turns", "read_in_bulk"]
