"""`drlnet bench replay`: a learner's and actors' work on our replay and on others', in turns."""

from drlnet.bench.replay.rounds import Results, measure_replays
from drlnet.bench.replay.subjects import WORKS, Subject, Work, subjects_of

__all__ = ["WORKS", "Results", "Subject", "Work", "measure_replays", "subjects_of"]
