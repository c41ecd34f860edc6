"""The role of the learner: times its access to the replay, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from drlnet.bench.paper.access import Access, Replay
from drlnet.bench.paper.phases import Phase, thinned
from drlnet.bench.paper.workloads import Layout
from drlnet.bench.rounds import Effort, Timed
from drlnet.launch.signals import Stop

STORE, FETCH, PING = "store", "fetch", "ping"
BATCH, CYCLE, TRAIN = "batch", "batch + update", "train"


def learn(
    access: Access,
    batches: Sequence[int],
    effort: Effort,
    stop: Stop,
    say: Callable[[Phase], None],
    *,
    turn: int = 0,
    training_s: float = 0.0,
) -> None:
    """Every phase once, or until stopped.

    turn: the number of the round: the layouts at one server change places by it. training_s: only
    trains, with each layout for so long.
    """
    for op, layout, batch, timed in _plan(access, batches, turn, training_s):
        if stop.is_set():
            return
        start_s = time.monotonic()
        if timed is None:
            stop.wait(effort.budget_s)  # at rest: the actors are measured
            latencies = np.empty(0)
        elif op == TRAIN:
            latencies = Effort(100_000, training_s, 2).latencies_us(timed)
        else:
            latencies = effort.latencies_us(timed)
        say(Phase(op, layout, batch, start_s, time.monotonic(), thinned(latencies)))


def _plan(
    access: Access, batches: Sequence[int], turn: int, training_s: float
) -> Iterator[tuple[str, Layout, int, Timed | None]]:
    layouts = list(access.replays)
    layouts = layouts[turn % len(layouts) :] + layouts[: turn % len(layouts)]
    if training_s:
        for layout in layouts:
            yield TRAIN, layout, batches[0], _training(access, access.replays[layout], batches[0])
        return
    for op, timed in access.others.items():
        yield op, Layout.MEMORY, 1, timed
    if access.others:
        yield STORE, Layout.MEMORY, 1, None
    for batch in batches:
        out = access.buffer(batch)
        for layout in layouts:
            replay = access.replays[layout]
            yield BATCH, layout, batch, partial(replay.samples, batch, out)
            yield CYCLE, layout, batch, partial(replay.cycles, batch, out)


def _training(access: Access, replay: Replay, batch: int) -> Timed:
    """Steps of a small Q-network on the batch's bytes, the time for the batch included."""
    from drlnet.bench.paper.training import Trainer

    trainer = Trainer(access, batch)

    def loop(latencies: NDArray[np.uint64], budget_s: float) -> int:
        end_ns = time.monotonic_ns() + int(budget_s * 1e9)
        for count in range(len(latencies)):
            before_ns = time.monotonic_ns()
            if before_ns >= end_ns:
                return count
            trainer.step(replay)
            latencies[count] = time.monotonic_ns() - before_ns
        return len(latencies)

    return loop
