"""Samplers and peers in turns: each size, each round, each subject anew.

Each subject is used by a process of its own, which may die alone. It is made for its turn and freed
behind it, so that the largest size needs memory for one, and luck with memory is nobody's alone.
Everything runs on one core. Percentiles are medians over the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from drlnet.bench.cores import Cores, pinned
from drlnet.bench.records import Key, Record
from drlnet.bench.rounds import COPY, Effort, orders
from drlnet.bench.rounds import Results as Rounds
from drlnet.bench.sampler.drawer import Drawer
from drlnet.bench.sampler.replies import SHAPES, measure_replies
from drlnet.bench.sampler.sizes import words_of
from drlnet.bench.sampler.subjects import DRAW, UPDATE, Subject, running
from drlnet.bench.shapes import Shape
from drlnet.bench.worker import Stopped, Worker, WorkerFailed, Workers
from drlnet.client import Sampler
from drlnet.launch.signals import Stop

SUITE = "sampler"
REPLY = "sample reply"
_OPS = (DRAW, UPDATE, REPLY)


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

    A subject that fails is left out from there on and its cause kept, with what was measured
    before. Replies are drawn by the first sampler of ours, if there is one. When stopped, returns
    what there is, marked as interrupted.
    """
    results = Results()
    core = Cores.usable().client
    left = list(subjects)
    try:
        with Workers(stop) as drawers:
            for size in sizes:
                for number, order in enumerate(orders(left, rounds), 1):
                    note(f"{words_of(size)} leaves, round {number} of {rounds}")
                    results.begin(number)
                    for subject in order:
                        try:
                            drawer = drawers.of(subject.name, partial(Drawer, subject.find, core))
                            _turn(results, subject.name, drawer, distribution, size, batch, effort)
                        except WorkerFailed as error:
                            left.remove(subject)
                            drawers.end(subject.name)
                            results.leave_out(subject.name, str(error), note)
        ours = [subject for subject in subjects if subject.sampler is not None]
        with stop.interrupts():
            for shape in shapes if ours else ():
                for number in range(1, rounds + 1):
                    note(f"replies, {shape.name}, round {number} of {rounds}")
                    results.begin(number)
                    _reply(results, shape, ours[0], batch, effort, core, copy_first=number % 2 == 0)
    except (Stopped, KeyboardInterrupt):
        results.interrupted = True
    return results


def _turn(
    results: Results,
    name: str,
    drawer: Worker,
    distribution: str,
    size: int,
    batch: int,
    effort: Effort,
) -> None:
    includes = drawer.call("open", distribution, size)
    if includes is not None:
        results.includes[name] = includes
    for op in (DRAW, UPDATE):
        latencies = drawer.measure(op, batch, effort)
        if len(latencies):
            results.keep(name, op, workload_of(size, batch), latencies)
    drawer.call("shut")


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
