"""`drlnet bench sampler`: what drawing and updating cost, over sizes, beside what others do."""

from drlnet.bench.sampler.priorities import DISTRIBUTIONS, priorities_of
from drlnet.bench.sampler.rounds import Results, measure_samplers
from drlnet.bench.sampler.sizes import sizes_of, words_of
from drlnet.bench.sampler.subjects import Subject, subjects_of

__all__ = [
    "DISTRIBUTIONS",
    "Results",
    "Subject",
    "measure_samplers",
    "priorities_of",
    "sizes_of",
    "subjects_of",
    "words_of",
]
