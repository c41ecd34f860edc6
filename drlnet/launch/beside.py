"""What goes on beside the learner, in processes forked from its own: evaluator and ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from drlnet.config import Config
from drlnet.launch.forks import Fork, forked
from drlnet.launch.signals import Stop
from drlnet.learning.ranks import Place, meeting_place
from drlnet.metrics import RunFolder


@contextmanager
def beside_learner(
    config: Config, run: RunFolder, server: str, stop: Stop, *, alone: bool = False
) -> Iterator[Place]:
    """Keeps an evaluator of the server's params, and the other ranks, while the block runs; the
    place of rank 0, which the block is.

    Their logs are in the run's folder. alone: without other ranks, which something else starts.
    Errors, threads: as launch.forks.
    """
    from drlnet.roles import evaluator, rank  # before the fork: torch is imported once

    count = 1 if alone else config.learner.processes
    meeting = meeting_place() if count > 1 else None

    def evaluate(stop: Stop) -> None:
        evaluator.evaluate_published(config, server, run, stop, print)

    def learn_along(number: int, stop: Stop) -> None:
        rank.learn_along(config, server, Place(number, count, number, meeting), stop, print)
        stop.wait()  # rank 0 may have to evaluate yet, and is not to be ended by this one's end

    forks = [Fork("evaluator", run.evaluator_log_path, evaluate)]
    forks += [
        Fork(f"rank-{number}", run.rank_log_path(number), partial(learn_along, number), told=True)
        for number in range(1, count)
    ]
    with forked(forks, stop):
        yield Place(0, count, 0, meeting)
