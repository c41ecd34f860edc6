"""Who is measured: samplers of ours, called in native code, and peers, called from Python."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench import peers
from drlnet.bench.sampler.priorities import Floats
from drlnet.client import Sampler

Latencies = NDArray[np.uint64]


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
    """One row of the results. make: its loops over such priorities, alive as long as these."""

    name: str
    make: Callable[[Floats], Loops]
    is_peer: bool = False


class PeerLoops:
    """A peer in the same loops as ours, as far as an interpreter can: one call at a time."""

    def __init__(self, peer: peers.Peer, priorities: Floats) -> None:
        self.includes = peer.includes
        self._peer = peer
        self._priorities = priorities
        self._random = np.random.default_rng(1)

    def draws(self, batch: int, latencies_ns: Latencies, budget_s: float) -> int:
        return _run(lambda: (batch,), self._peer.draw, latencies_ns, budget_s)

    def updates(self, batch: int, latencies_ns: Latencies, budget_s: float) -> int:
        def given() -> tuple[object, object]:
            chosen, values = self._random.integers(0, len(self._priorities), (2, batch))
            return self._peer.given(chosen, self._priorities[values])

        return _run(given, self._peer.update, latencies_ns, budget_s)


def _run(
    prepare: Callable[[], tuple[object, ...]],
    call: Callable[..., object],
    latencies_ns: Latencies,
    budget_s: float,
) -> int:
    """As native/src/measure/loop.h: arguments are made before each call, and not timed."""
    end = time.perf_counter_ns() + round(budget_s * 1e9)
    with peers.peer_failures():
        for index in range(len(latencies_ns)):
            arguments = prepare()
            before = time.perf_counter_ns()
            if before >= end:
                return index
            call(*arguments)
            latencies_ns[index] = time.perf_counter_ns() - before
    return len(latencies_ns)


def _ours(name: str) -> Subject:
    settings = Sampler(name, peers.ALPHA, peers.FLOOR)

    def make(priorities: Floats) -> Loops:
        return native.LiveSampler(
            settings.name,
            settings.priority_exponent,
            settings.priority_floor,
            dict(settings.options),
            priorities,
            0,
        )

    make(np.ones(1, np.float32))  # says now if there is none of that name
    return Subject(name, make)


def _peer(name: str) -> Subject:
    return Subject(
        name, lambda priorities: PeerLoops(peers.load(name, priorities), priorities), is_peer=True
    )


def subjects_of(samplers: Sequence[str] | None, others: Sequence[str] | None) -> list[Subject]:
    """Samplers of ours, then peers; None: all there are. Raises ConfigError for an unknown name."""
    ours = native.sampler_names() if samplers is None else list(dict.fromkeys(samplers))
    return [*map(_ours, ours), *map(_peer, peers.named(others))]
