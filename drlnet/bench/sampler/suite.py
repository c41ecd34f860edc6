"""Samplers and peers in turns: each size, each round, each subject anew.

Each subject is used by a process of its own, which may die alone. It is made for its turn and freed
behind it, so that the largest size needs memory for one, and luck with memory is nobody's alone.
Everything runs on one core. Last comes a server's whole answer, without a network, against memcpy.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from drlnet.bench.engine import COPY, Effort, Note
from drlnet.bench.engine import Results as Rounds
from drlnet.bench.machine import pinned
from drlnet.bench.measure import FullTable, copies
from drlnet.bench.processes import WorkerFailed, Workers
from drlnet.bench.records import Key, Record
from drlnet.bench.sampler.subjects import DRAW, UPDATE, Drawer, Subject, running
from drlnet.bench.shapes import FRAMES, FRAMES_3, SMALL, Shape
from drlnet.client import Sampler
from drlnet.errors import ConfigError
from drlnet.launch.signals import Stop

SUITE = "sampler"
REPLY = "sample reply"
SHAPES = (SMALL, FRAMES, FRAMES_3)
MOST = 2**27
_REMEDY = "give sizes from 1 to 2^27, such as 2^10,2^17,2^20 or 2^10..2^27"


@dataclass
class Results(Rounds):
    """Samplers, with the payload of those that move bytes, and what the calls of peers include."""

    operation_bytes: dict[Key, int] = field(default_factory=dict)
    includes: dict[str, str] = field(default_factory=dict)  # by peer

    def records(self) -> list[Record]:
        """Draws of every size, then updates, then replies; subjects as they were first measured."""
        return [
            Record.of(
                SUITE, subject, workload, op, self.rounds[subject, op, workload],
                operation_bytes=self.operation_bytes.get((subject, op, workload)),
            )
            for subject, op, workload in self.in_order((DRAW, UPDATE, REPLY))
        ]  # fmt: skip


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
    note: Note,
    shapes: Sequence[Shape] = SHAPES,
) -> Results:
    """Measures all subjects in turns over every size, then the replies of a server.

    Replies are drawn by the first sampler of ours, if there is one. When stopped, returns what
    there is, marked as interrupted.
    """
    results = Results()
    core = results.cores.client

    def turn(size: int, subject: Subject) -> None:
        try:
            drawer = drawers.of(subject.name, partial(Drawer, subject.find), core=core)
            includes = drawer.call("open", distribution, size)
            if includes is not None:
                results.includes[subject.name] = includes
            for op in (DRAW, UPDATE):
                latencies = drawer.measure(op, batch, effort)
                results.keep(subject.name, op, workload_of(size, batch), latencies)
            drawer.call("shut")
        except WorkerFailed:
            drawers.end(subject.name)
            raise

    with results.until_stopped():
        with Workers(stop) as drawers:
            for size in sizes:
                left = [one for one in subjects if one.name not in results.unavailable]
                what = f"{words_of(size)} leaves, "
                results.take_turns(stop, left, rounds, partial(turn, size), note, what=what)
        ours = [subject for subject in subjects if subject.sampler is not None]
        with stop.interrupts():
            for shape in shapes if ours else ():
                _measure_replies(stop, results, shape, ours[0], batch, rounds, effort, note)
    return results


@dataclass(frozen=True)
class _Reply:
    """A subject of replies: a table's, or the bytes alone."""

    name: str
    copied: bool


def _measure_replies(
    stop: Stop,
    results: Results,
    shape: Shape,
    subject: Subject,
    batch: int,
    rounds: int,
    effort: Effort,
    note: Note,
) -> None:
    """Replies, and a plain memcpy of as many bytes, in turns.

    What is copied is drawn from as much memory as the table has, and lies together.
    """
    assert subject.sampler is not None
    workload, spec = f"{batch} {shape.name}", shape.spec(Sampler(subject.sampler))
    reply_bytes = shape.reply_bytes(batch)
    places = max(1, shape.table_bytes // reply_bytes)

    def turn(one: _Reply) -> None:
        with pinned(results.cores.client), running(subject.kernel):
            if one.copied:
                timed = partial(copies, reply_bytes, places, 1)
            else:
                timed = partial(FullTable(spec).samples, batch)
            results.keep(one.name, REPLY, workload, effort.latencies_us(timed))
        results.operation_bytes[one.name, REPLY, workload] = reply_bytes

    sides = [_Reply(subject.name, copied=False), _Reply(COPY, copied=True)]
    results.take_turns(stop, sides, rounds, turn, note, what=f"replies, {shape.name}, ")


def sizes_of(words: str) -> list[int]:
    """The sizes in ascending order, each once. Raises ConfigError."""
    sizes: set[int] = set()
    for word in words.split(","):
        first, dots, last = (part.strip() for part in word.partition(".."))
        if not dots:
            sizes.add(_size_of(first))
            continue
        low, high = _power_of(first), _power_of(last)
        if low > high:
            raise ConfigError(f"the range '{word.strip()}' of sizes is empty", _REMEDY)
        sizes.update(2**power for power in range(low, high + 1))
    return sorted(sizes)


def words_of(size: int) -> str:
    """2^20 for a power of two from 2^10 on, else the number."""
    power = size.bit_length() - 1
    return f"2^{power}" if size == 2**power and power >= 10 else str(size)


def _size_of(word: str) -> int:
    found = re.fullmatch(r"(\d{1,9})|2\^(\d{1,2})", word)
    size = 0 if found is None else int(found[1]) if found[1] else 2 ** int(found[2])
    if found is None:
        raise ConfigError(f"'{word}' is no number of leaves", _REMEDY)
    if not 1 <= size <= MOST:
        raise ConfigError(f"{word} leaves cannot be measured", _REMEDY)
    return size


def _power_of(word: str) -> int:
    size = _size_of(word)
    if size != 2 ** (size.bit_length() - 1):
        raise ConfigError(f"a range of sizes goes over powers of two, {word} is none", _REMEDY)
    return size.bit_length() - 1
