"""`drlnet bench paper`: what the network costs distributed reinforcement learning, and what each
remedy buys (Furukawa and Matsutani, arXiv 2110.13506)."""

from drlnet.bench.paper.comparisons import floors, reductions
from drlnet.bench.paper.results import Results
from drlnet.bench.paper.rounds import FULL, QUICK, groups_of, measure_paper, transports_of

__all__ = [
    "FULL",
    "QUICK",
    "Results",
    "floors",
    "groups_of",
    "measure_paper",
    "reductions",
    "transports_of",
]
