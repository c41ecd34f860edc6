"""The role of the learner: times its access to the replay, phase by phase."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
FLOOR = "floor"  # pings; behind them the transport's rate is measured by who started the learner
_PINGS = Effort(calls=200, budget_s=0.006, warm_up=3)


def learn(
    access: Access,
    batches: Sequence[int],
    effort: Effort,
    stop: Stop,
    say: Callable[[Phase], None],
    *,
    turn: int = 0,
    training_s: float = 0.0,
    slices: int = 1,
    pause: Callable[[], object] | None = None,
) -> None:
    """Every phase, or until stopped; those of batches in so many slices, which take turns and share
    the time.

    turn: the number of the round: the layouts at one server change places by it. training_s: only
    trains, with each layout for so long. pause: called within each slice of a floor, which lie
    right before and behind each slice of the in-network layout; without it there are none.
    """
    part = replace(effort, budget_s=effort.budget_s / slices)
    plan = _plan(access, batches, turn, training_s, slices, floors=pause is not None)
    for op, layout, batch, timed in plan:
        if stop.is_set():
            return
        start_s = time.monotonic()
        if timed is None:
            stop.wait(effort.budget_s)  # at rest: the actors are measured
            latencies = np.empty(0)
        elif op == TRAIN:
            latencies = Effort(100_000, training_s, 2).latencies_us(timed)
        elif op == FLOOR:
            latencies = _PINGS.latencies_us(timed)
        else:
            latencies = (part if op in {BATCH, CYCLE} else effort).latencies_us(timed)
        say(Phase(op, layout, batch, start_s, time.monotonic(), thinned(latencies)))
        if op == FLOOR and pause is not None:
            pause()


def _plan(
    access: Access,
    batches: Sequence[int],
    turn: int,
    training_s: float,
    slices: int,
    *,
    floors: bool,
) -> Iterator[tuple[str, Layout, int, Timed | None]]:
    layouts = list(access.replays)
    if training_s:
        for layout in _turned(layouts, turn):
            yield TRAIN, layout, batches[0], _training(access, access.replays[layout], batches[0])
        return
    for op, timed in access.others.items():
        yield op, Layout.MEMORY, 1, timed
    if access.others:
        yield STORE, Layout.MEMORY, 1, None
    buffers = {batch: access.buffer(batch) for batch in batches}
    for number in range(turn, turn + slices):
        for batch, out in buffers.items():
            for layout in _turned(layouts, number):
                replay = access.replays[layout]
                floor = FLOOR, layout, batch, access.others.get(PING)
                beside = floors and layout is Layout.NETWORK
                if beside:
                    yield floor
                yield BATCH, layout, batch, partial(replay.samples, batch, out)
                if beside:
                    yield floor
                yield CYCLE, layout, batch, partial(replay.cycles, batch, out)
                if beside:
                    yield floor


def _turned(layouts: list[Layout], number: int) -> list[Layout]:
    """Another one first each time."""
    first = number % len(layouts)
    return layouts[first:] + layouts[:first]


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
