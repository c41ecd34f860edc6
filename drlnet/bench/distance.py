"""How far apart the two cores of a benchmark are while it measures.

A host may move a virtual machine's cores at any time: a cache line's round trip between two that
share a cache takes a third or a quarter of that between two that do not, and whatever passes bytes
from one process to another follows.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from drlnet import native
from drlnet.bench.cores import Cores, pinned

_MOVED = 1.5  # times the least: more than other users of the machine do to the best of many


@dataclass(frozen=True)
class Look:
    """One round trip of a cache line. at_s: since the first look of all."""

    before: str  # what was measured next
    ns: int
    at_s: float


@dataclass
class CoreDistance:
    """What was seen of it, round by round."""

    rounds: list[list[Look]] = field(default_factory=list)
    _began_s: float | None = None

    def begin_round(self) -> None:
        """What is looked at from now on belongs to another round."""
        self.rounds.append([])

    def look(self, cores: Cores, before: str) -> None:
        """Takes a millisecond, while nothing else may spin on these cores; nothing of one core."""
        if cores.server is None or cores.client is None:
            return
        now_s = time.monotonic()
        self._began_s = self._began_s or now_s
        with pinned(cores.client):
            ns = native.core_round_trip_ns(cores.server)
        if ns is not None:
            self.add(before, ns, round(now_s - self._began_s, 3))

    def add(self, before: str, ns: int, at_s: float) -> None:
        """Keeps a look in the round that is measured."""
        if not self.rounds:
            self.begin_round()
        self.rounds[-1].append(Look(before, ns, at_s))

    def in_words(self) -> str:
        """One line for below the tables; empty when nothing was seen."""
        seen = [look.ns for looks in self.rounds for look in looks]
        if not seen:
            return ""
        low, high = min(seen), max(seen)
        if high <= _MOVED * low:
            return f"Between the cores a cache line takes {median(seen):.0f} ns there and back."
        middle = (low * high) ** 0.5
        seen_near = [{look.ns < middle for look in looks} for looks in self.rounds]
        near, far, both = (seen_near.count(kind) for kind in ({True}, {False}, {True, False}))
        words = (
            f"Between the cores a cache line took from {low} to {high} ns there and back, as where "
            f"a host moves virtual ones (rounds: {near} near, {far} far, {both} both). "
            "What passes bytes between processes goes by that: rounds do not compare with each "
            "other, and ratios are taken within rounds"
        )
        apart_s = max(looks[-1].at_s - looks[0].at_s for looks in self.rounds if looks)
        if apart_s >= 1:
            words += f", whose parts begin up to {apart_s:.0f} s apart"
        return f"{words}."

    def to_dict(self) -> dict[str, Any]:
        """In words, and every look by round."""
        by_round = [[asdict(look) for look in looks] for looks in self.rounds]
        return {"in_words": self.in_words(), "by_round": by_round}
