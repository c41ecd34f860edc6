"""What is measured: our samplers, called in native code, and peers, called from Python."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench import peers
from drlnet.bench.engine import Effort, timed_calls
from drlnet.bench.measure import LiveSampler, kernel_names
from drlnet.bench.peers.base import ALPHA, FLOOR, Peer
from drlnet.client import Sampler
from drlnet.config.names import chosen, require_known
from drlnet.errors import ConfigError

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


DRAW, UPDATE = "draw", "update"
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
    settings = Sampler(name, ALPHA, FLOOR)
    with running(kernel):
        return LiveSampler(
            settings.name,
            settings.priority_exponent,
            settings.priority_floor,
            dict(settings.options),
            priorities,
            0,
        )


def _find_ours(name: str, kernel: str | None) -> Callable[[Floats], Loops]:
    return partial(_live, name, kernel)


def _find_peer(name: str) -> Callable[[Floats], Loops]:
    return partial(PeerLoops, peers.find_sampler(name))


def _ours(name: str, kernel: str | None) -> Subject:
    _live(name, kernel, np.ones(1, np.float32))  # says now if there is none of that name
    fastest = kernel is None or kernel == kernel_names()[0]
    row = name if fastest else f"{name}, {kernel}"
    return Subject(row, partial(_find_ours, name, kernel), name, kernel)


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
