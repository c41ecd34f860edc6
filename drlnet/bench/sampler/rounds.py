"""Samplers and peers in turns: each size, each round, each subject anew.

A subject is made for its turn and freed behind it, so that the largest size needs memory for one,
and luck with memory is nobody's alone. Everything runs on one core. Percentiles are medians over
the rounds.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from drlnet.bench.cores import Cores, pinned
from drlnet.bench.peers import PeerUnavailable
from drlnet.bench.records import Key, Record
from drlnet.bench.rounds import COPY, Effort, orders
from drlnet.bench.rounds import Results as Rounds
from drlnet.bench.sampler.priorities import Floats, priorities_of
from drlnet.bench.sampler.replies import SHAPES, measure_replies
from drlnet.bench.sampler.sizes import words_of
from drlnet.bench.sampler.subjects import PeerLoops, Subject, running
from drlnet.bench.shapes import Shape
from drlnet.client import Sampler
from drlnet.launch.signals import Stop

SUITE = "sampler"
REPLY = "sample reply"
_OPS = ("draw", "update", REPLY)


@dataclass
class Results(Rounds):
    """Of samplers: with the payload of what moves bytes, and what the calls of peers include."""

    operation_bytes: dict[Key, int] = field(default_factory=dict)
    includes: dict[str, str] = field(default_factory=dict)  # by peer

    def records(self) -> list[Record]:
        """Draws of every size, then updates, then replies; subjects as they were first measured."""
        return [
            Record.of(
                SUITE,
                subject,
                workload,
                op,
                self.rounds[subject, op, workload],
                operation_bytes=self.operation_bytes.get((subject, op, workload)),
            )
            for subject, op, workload in self.in_order(_OPS)
        ]


def workload_of(size: int, batch: int) -> str:
    """What a record calls it."""
    return f"{batch} of {words_of(size)}"


def measure_samplers(
    stop: Stop,
    subjects: Sequence[Subject],
    *,
    sizes: Sequence[int],
    batch: int,
    distribution: str,
    rounds: int,
    effort: Effort,
    note: Callable[[str], None],
    shapes: Sequence[Shape] = SHAPES,
) -> Results:
    """Measures all subjects in turns over every size, then the replies of a server.

    A peer that fails is left out from there on and its cause kept, with what was measured before.
    Replies are drawn by the first sampler of ours, if there is one. When stopped, returns what
    there is, marked as interrupted: even out of a peer that hangs, as far as it runs in Python.
    """
    results = Results()
    gc.freeze()  # what is there before is not looked through behind each turn
    core = Cores.usable().client
    left = list(subjects)
    try:
        with stop.interrupts():
            for size in sizes:
                priorities = priorities_of(distribution, size)
                for number, order in enumerate(orders(left, rounds), 1):
                    note(f"{words_of(size)} leaves, round {number} of {rounds}")
                    for subject in order:
                        try:
                            _turn(results, subject, priorities, batch, effort, core)
                        except (PeerUnavailable, SystemExit) as error:
                            ends = isinstance(error, SystemExit)  # one that would end us, too
                            cause = f"it ends its program: {error}" if ends else str(error)
                            results.unavailable[subject.name] = cause
                            left.remove(subject)
                            note(f"{subject.name}: skipped: {cause}")
            ours = [subject for subject in subjects if subject.sampler is not None]
            for shape in shapes if ours else ():
                for number in range(rounds):
                    note(f"replies, {shape.name}, round {number + 1} of {rounds}")
                    _reply(results, shape, ours[0], batch, effort, core, copy_first=number % 2 == 1)
    except KeyboardInterrupt:
        results.interrupted = True
    return results


def _turn(
    results: Results,
    subject: Subject,
    priorities: Floats,
    batch: int,
    effort: Effort,
    core: int | None,
) -> None:
    workload = workload_of(len(priorities), batch)
    with pinned(core):
        loops = subject.make(priorities)
        for op, loop in (("draw", loops.draws), ("update", loops.updates)):
            times = effort.latencies_us(partial(loop, batch))
            results.keep(subject.name, op, workload, times.tolist())
    if isinstance(loops, PeerLoops):
        results.includes[subject.name] = loops.includes
    del loop, loops
    gc.collect()  # what holds itself in a cycle must not wait for later: it may be gigabytes


def _reply(
    results: Results,
    shape: Shape,
    subject: Subject,
    batch: int,
    effort: Effort,
    core: int | None,
    *,
    copy_first: bool,
) -> None:
    assert subject.sampler is not None
    workload, sampler = f"{batch} {shape.name}", Sampler(subject.sampler)
    with pinned(core), running(subject.kernel):
        for one in measure_replies(shape, sampler, batch, effort, copy_first=copy_first):
            name = COPY if one.copied else subject.name
            results.keep(name, REPLY, workload, one.latencies_us.tolist())
            results.operation_bytes[name, REPLY, workload] = one.reply_bytes
