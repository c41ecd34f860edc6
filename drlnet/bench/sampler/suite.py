"""Samplers and peers in turns: each size, each round, each subject anew.

Each subject is used by a process of its own, which may die alone. It is made for its turn and freed
behind it, so that the largest size needs memory for one, and luck with memory is nobody's alone.
Everything runs on one core. Last comes a server's whole answer, without a network, against memcpy.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench import peers
from drlnet.bench.engine import COPY, Effort, Note, Results, timed_calls
from drlnet.bench.machine import pinned
from drlnet.bench.measure import FullTable, LiveSampler, copies, kernel_names
from drlnet.bench.peers.base import ALPHA, FLOOR, Peer
from drlnet.bench.processes import WorkerFailed, Workers
from drlnet.bench.shapes import FRAMES, FRAMES_3, SMALL, Shape
from drlnet.client import Sampler
from drlnet.config.names import chosen, require_known
from drlnet.errors import ConfigError
from drlnet.launch.signals import Stop

DRAW, UPDATE = "draw", "update"
SUITE = "sampler"
REPLY = "sample reply"
OPS = (DRAW, UPDATE, REPLY)
SHAPES = (SMALL, FRAMES, FRAMES_3)
MOST = 2**27
_REMEDY = "give sizes from 1 to 2^27, such as 2^10,2^17,2^20 or 2^10..2^27"
Floats = NDArray[np.float32]


def _wide(random: np.random.Generator, count: int) -> Floats:
    exponents: Floats = random.random(count, np.float32) * np.float32(12) - np.float32(6)
    np.power(np.float32(10), exponents, out=exponents)
    return exponents


DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "exponential": lambda random, count: random.standard_exponential(count, np.float32),
    "uniform": lambda random, count: random.random(count, np.float32),
    "equal": lambda random, count: np.ones(count, np.float32),
    "wide": _wide,  # over 12 orders of magnitude
}


def priorities_of(distribution: str, count: int, seed: int = 0) -> Floats:
    """[count], finite and 0 or more. Raises ConfigError for an unknown distribution."""
    require_known("distribution", distribution, list(DISTRIBUTIONS))
    return DISTRIBUTIONS[distribution](np.random.default_rng(seed), count)


Latencies = NDArray[np.uint64]
TREE = "prioritized"
_KERNEL_VARIABLE = "DRLNET_KERNEL"  # read when a sampler is made: native/src/sampler/kernels


class Loops(Protocol):
    """Timed loops over n leaves that are all live, in batches of k."""

    def draws(self, batch: int, latencies_ns: Latencies, budget_s: float) -> int:
        """k indices and what importance weights are made of."""
        ...

    def updates(self, batch: int, latencies_ns: Latencies, budget_s: float) -> int:
        """New priorities for k random leaves, the exponent included."""
        ...


@dataclass(frozen=True)
class Subject:
    """One row of the results.

    find: called in the process that is measured, so it must pickle; imports what makes loops over
    such priorities. sampler, kernel: of ours, by their names in the native core.
    """

    name: str
    find: Callable[[], Callable[[Floats], Loops]]
    sampler: str | None = None
    kernel: str | None = None


@contextmanager
def running(kernel: str | None) -> Iterator[None]:
    """Sum trees that are made meanwhile run that kernel; None: the one that they choose."""
    before = os.environ.get(_KERNEL_VARIABLE)
    if kernel is not None:
        os.environ[_KERNEL_VARIABLE] = kernel
    try:
        yield
    finally:
        if before is not None:
            os.environ[_KERNEL_VARIABLE] = before
        else:
            os.environ.pop(_KERNEL_VARIABLE, None)


class PeerLoops:
    """A peer in the same loops as ours, as far as an interpreter can: one call at a time."""

    def __init__(self, make: Callable[[Floats], Peer], priorities: Floats) -> None:
        self._peer = make(priorities)
        self.includes = self._peer.includes
        self._priorities = priorities
        self._random = np.random.default_rng(1)

    def draws(self, batch: int, latencies_ns: Latencies, budget_s: float) -> int:
        return timed_calls(lambda: (batch,), self._peer.draw, latencies_ns, budget_s)

    def updates(self, batch: int, latencies_ns: Latencies, budget_s: float) -> int:
        def given() -> tuple[object, object]:
            chosen, values = self._random.integers(0, len(self._priorities), (2, batch))
            return self._peer.given(chosen, self._priorities[values])

        return timed_calls(given, self._peer.update, latencies_ns, budget_s)


def _live(name: str, kernel: str | None, priorities: Floats) -> Loops:
    with running(kernel):
        return LiveSampler(name, ALPHA, FLOOR, dict(Sampler(name).options), priorities, 0)


def _find_peer(name: str) -> Callable[[Floats], Loops]:
    return partial(PeerLoops, peers.find_sampler(name))


def _ours(name: str, kernel: str | None) -> Subject:
    make = partial(_live, name, kernel)
    make(np.ones(1, np.float32))  # says now if there is none of that name
    fastest = kernel is None or kernel == kernel_names()[0]
    return Subject(name if fastest else f"{name}, {kernel}", partial(partial, make), name, kernel)


def subjects_of(
    samplers: Sequence[str] | None,
    others: Sequence[str] | None,
    kernels: Sequence[str] | None = None,
) -> list[Subject]:
    """Samplers of ours, the tree's with each of its kernels, then peers.

    None: all there are. Raises ConfigError for an unknown name.
    """
    of_tree = chosen("kernel of this CPU", kernels, kernel_names())
    ours = native.sampler_names() if samplers is None else list(dict.fromkeys(samplers))
    if kernels is not None and TREE not in ours:
        raise ConfigError(f"no sampler that is measured has kernels: {TREE} has", f"add {TREE}")
    found = []
    for name in ours:
        found += [_ours(name, kernel) for kernel in (of_tree if name == TREE else [None])]
    return found + [
        Subject(name, partial(_find_peer, name)) for name in peers.named(peers.SAMPLERS, others)
    ]


class Drawer:
    """The process in which a sampler is used, one at a time. Called from another one (Worker)."""

    def __init__(self, find: Callable[[], Callable[[Floats], Loops]]) -> None:
        self._make = find()
        self._loops: Loops | None = None
        gc.freeze()  # what is there by now is not looked through behind each turn

    def open(self, distribution: str, size: int) -> str | None:
        """Makes the sampler over such priorities; returns what a peer's calls include."""
        self._loops = self._make(priorities_of(distribution, size))
        return self._loops.includes if isinstance(self._loops, PeerLoops) else None

    def measure(self, op: str, batch: int, effort: Effort) -> NDArray[np.float64]:
        """Latencies of one operation, us."""
        assert self._loops is not None
        loop = self._loops.draws if op == DRAW else self._loops.updates
        return effort.latencies_us(partial(loop, batch))

    def shut(self) -> None:
        """Frees the sampler; another may be made."""
        self._loops = None
        gc.collect()  # what holds itself in a cycle must not wait for later: it may be gigabytes


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

    def turn(one: Subject) -> None:
        with pinned(results.cores.client), running(subject.kernel):
            if one.name == COPY:
                timed = partial(copies, reply_bytes, places, 1)
            else:
                timed = partial(FullTable(spec).samples, batch)
            results.keep(one.name, REPLY, workload, effort.latencies_us(timed))
        results.operation_bytes[one.name, REPLY, workload] = reply_bytes

    sides = [subject, replace(subject, name=COPY)]
    results.take_turns(stop, sides, rounds, turn, note, what=f"replies, {shape.name}, ")


def sizes_of(words: str) -> list[int]:
    """The sizes in ascending order, each once. Raises ConfigError."""
    sizes: set[int] = set()
    for word in words.split(","):
        found = re.fullmatch(r"\s*(?:(\d{1,9})|2\^(\d\d?)(?:\s*\.\.\s*2\^(\d\d?))?)\s*", word)
        if found is None:
            raise ConfigError(f"'{word.strip()}' is no number of leaves", _REMEDY)
        number, low, high = found.groups()
        of_word = [int(number)] if number else [2**n for n in range(int(low), int(high or low) + 1)]
        if not of_word or not 1 <= of_word[0] <= of_word[-1] <= MOST:
            raise ConfigError(f"{word.strip()} leaves cannot be measured", _REMEDY)
        sizes.update(of_word)
    return sorted(sizes)


def words_of(size: int) -> str:
    """2^20 for a power of two from 2^10 on, else the number."""
    power = size.bit_length() - 1
    return f"2^{power}" if size == 2**power and power >= 10 else str(size)
