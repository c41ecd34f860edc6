"""`drlnet bench transport`: what an operation costs over each transport."""

from drlnet.bench.transport.reductions import reductions
from drlnet.bench.transport.rounds import Results, measure_transports
from drlnet.bench.transport.subjects import subjects_of

__all__ = ["Results", "measure_transports", "reductions", "subjects_of"]
