"""Samplers and peers in turns: each size, each round, each subject anew.

Each subject is used by a process of its own, which may die alone. It is made for its turn and freed
behind it, so that the largest size needs memory for one, and luck with memory meets all alike.
Everything runs on one core.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench import peers
from drlnet.bench import show as tables
from drlnet.bench.engine import Course, Effort, Results, timed_calls
from drlnet.bench.measure import LiveSampler, kernel_names
from drlnet.bench.peers import ALPHA, FLOOR, Peer
from drlnet.bench.processes import WorkerFailed, Workers
from drlnet.bench.records import Ratio, Record, key_of, ratios_of
from drlnet.client import Sampler
from drlnet.config.names import chosen, require_known
from drlnet.errors import ConfigError
from drlnet.plots import Axis, Figure, Line, Mark

DRAW, UPDATE = "draw", "update"
SUITE = "sampler"
OPS = (DRAW, UPDATE)
MOST = 2**27
LEAF_BYTES = 4  # float32: the tree above the leaves adds a fraction to it
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


def priorities_of(distribution: str, count: int) -> Floats:
    """[count], finite and 0 or more. Raises ConfigError for an unknown distribution."""
    require_known("distribution", distribution, list(DISTRIBUTIONS))
    return DISTRIBUTIONS[distribution](np.random.default_rng(0), count)


Latencies = NDArray[np.uint64]
TREE = "prioritized"


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


Loops = PeerLoops | LiveSampler
"""Timed loops over n leaves that are all live, in batches of k: draws and updates."""


@dataclass(frozen=True)
class Subject:
    """One row of the results.

    find: called in the process that is measured, so it must pickle; imports what makes loops over
    such priorities.
    """

    name: str
    find: Callable[[], Callable[[Floats], Loops]]


def live(name: str, kernel: str | None, priorities: Floats) -> Loops:
    """A sampler of ours, over these priorities. None: the fastest kernel."""
    if kernel is not None:  # of this process alone, which measures no other
        os.environ["DRLNET_KERNEL"] = kernel
    return LiveSampler(name, ALPHA, FLOOR, dict(Sampler(name).options), priorities, 0)


def _find_peer(name: str) -> Callable[[Floats], Loops]:
    return partial(PeerLoops, peers.imported(peers.SAMPLERS, name))


def subjects_of(
    samplers: Sequence[str] | None,
    others: Sequence[str] | None,
    kernels: Sequence[str] | None = None,
) -> list[Subject]:
    """Samplers of ours, the tree's with each of its kernels, then peers.

    None: all there are. Raises ConfigError for an unknown name.
    """
    ours = chosen("sampler", samplers, native.sampler_names())
    of_tree = chosen("kernel of this CPU", kernels, kernel_names())
    if kernels is not None and TREE not in ours:
        raise ConfigError(f"no sampler that is measured has kernels: {TREE} has", f"add {TREE}")
    found = []
    for name in ours:
        for kernel in of_tree if name == TREE else [None]:
            fastest = kernel is None or kernel == kernel_names()[0]
            words = name if fastest else f"{name}, {kernel}"
            found.append(Subject(words, partial(partial, partial(live, name, kernel))))
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
    course: Course,
    subjects: Sequence[Subject],
    *,
    sizes: Sequence[int],
    batch: int,
    distribution: str,
) -> Results:
    """Measures all subjects in turns over every size.

    When stopped, returns the results so far, marked as interrupted.
    """
    results = Results()
    core = results.cores.client

    def turn(size: int, subject: Subject) -> None:
        try:
            drawer = drawers.of(subject.name, partial(Drawer, subject.find), core=core)
            includes = drawer.call("open", distribution, size)
            if includes is not None:
                results.includes[subject.name] = includes
            for op in OPS:
                latencies = drawer.measure(op, batch, course.effort)
                results.keep(subject.name, op, workload_of(size, batch), latencies)
            drawer.call("shut")
        except WorkerFailed:
            drawers.end(subject.name)
            raise

    with results.until_stopped(), Workers(course.stop) as drawers:
        for size in sizes:
            left = [one for one in subjects if one.name not in results.unavailable]
            what = f"{words_of(size)} leaves, "
            results.take_turns(course, left, partial(turn, size), what=what)
    return results


def sizes_of(words: str) -> list[int]:
    """The sizes in ascending order, each once. Raises ConfigError."""
    sizes: set[int] = set()
    for word in words.split(","):
        found = re.fullmatch(r"\s*(?:(\d{1,9})|2\^(\d\d?)(?:\s*\.\.\s*2\^(\d\d?))?)\s*", word)
        if found is None:
            raise ConfigError(f"'{word.strip()}' is not a number of leaves", _REMEDY)
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


def ratios(records: Sequence[Record], baseline: str) -> list[Ratio]:
    """By the rounds' p50, of every record but the baseline's own, wherever that was measured."""
    return ratios_of(records, lambda record: (baseline, record.op, record.workload))


def show(
    records: Sequence[Record], found: Sequence[Ratio], includes: Mapping[str, str], *, file: TextIO
) -> None:
    """Prints it: in colour on a terminal, plain elsewhere. includes: what a peer's calls do."""
    ratios = {key_of(r): tables.times(r.ratio) for r in found}
    columns = {"ratio": tables.column(ratios)}
    tables.show(records, columns, caption(records, found, includes), file=file)


def caption(
    records: Sequence[Record], found: Sequence[Ratio], includes: Mapping[str, str]
) -> list[str]:
    """What a reader has to know beside the figures."""
    lines = []
    if found:
        lines.append(
            f'Ratio: p50 relative to "{found[0].baseline}" in the same operation, workload and '
            "round (median over the rounds); 4x takes four times as long. One core, every leaf "
            "live, random leaves updated."
        )
    if any(record.subject not in includes for record in records):
        lines.append(
            "Samplers of drlnet are called in native code, as its server calls them; weights are "
            "the learner's. Uniform and fifo keep no priorities. Where a name says no kernel, "
            f"prioritized runs the fastest that this CPU has: {kernel_names()[0]}."
        )
    if included := tables.included(records, includes):
        lines.append(
            "Peers are called from Python, as they are used; indices, weights and priorities are "
            "in their own types. What a call includes:"
        )
        lines += included
    return lines


def plot(records: Sequence[Record], sizes: Mapping[str, int], caches: Mapping[str, int]) -> Figure:
    """A panel for draws, one for updates; a thin line reaches from each p50 to its p99.

    sizes: leaves by workload; records of others are left out. caches: bytes by name, marked where
    the leaves alone fill them.
    """
    shown = [record for record in records if record.workload in sizes]
    if len(sizes) == 1:
        return tables.plot_bars("Time for a batch", shown)  # nothing to draw a curve over
    ops = list(dict.fromkeys(record.op for record in shown))
    least, most = min(sizes.values()), max(sizes.values())
    marks = [
        Mark(size_bytes / LEAF_BYTES, f"{name} {_bytes(size_bytes)}")
        for name, size_bytes in caches.items()
        if least <= size_bytes / LEAF_BYTES <= most
    ]
    figure = Figure(
        "Time for a batch over the number of leaves: p50 (point) to p99 (line)",
        panels=ops,
        share_y=True,
    )
    for op in ops:
        curves = {}
        for subject in dict.fromkeys(record.subject for record in shown):
            found = [r for r in shown if (r.subject, r.op) == (subject, op)]
            if found:
                curves[subject] = Line(
                    [sizes[r.workload] for r in found],
                    [r.p50_us for r in found],
                    high=[r.p99_us for r in found],
                    spread="bars",
                )
        label = "us" if op == ops[0] else ""
        figure.lines(op, curves, x=Axis("leaves", log=2), y=Axis(label, log=10), marks=marks)
    return figure


def _bytes(count: int) -> str:
    return f"{count / 2**20:g} MiB" if count >= 2**20 else f"{count / 2**10:g} KiB"
