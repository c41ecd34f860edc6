"""An actor's initial priorities: the n-step TD errors of its own steps, once their future is known.

The equation is the learner's (see dqn), with the actor's own Q values in both places:

    |R + gamma^m (d_1 ... d_m) max_a Q(o_{t+m}, a) - Q(o_t, a_t)|,  m = min(n, steps left)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from drlnet.adders.items import Items


class NStepErrors:
    """Follows M streams row by row. O(n M) memory and work; not thread-safe."""

    def __init__(self, num_streams: int, n_step: int, gamma: float):
        self._n = n_step
        self._gamma = gamma
        shape = (n_step, num_streams)
        # The anchors that still wait, a ring for each stream: at most n are open at once.
        self._open = np.zeros(shape, dtype=np.bool_)
        self._age = np.zeros(shape, dtype=np.int64)
        self._step = np.zeros(shape, dtype=np.int64)
        self._q_taken = np.zeros(shape)
        self._returns = np.zeros(shape)
        self._factor = np.zeros(shape)
        self._next = np.zeros(num_streams, dtype=np.int64)

    def push(
        self,
        columns: Mapping[str, npt.NDArray[Any]],
        last: npt.NDArray[np.bool_],
        steps: npt.NDArray[np.int64],
        q: npt.NDArray[np.float32],
        mask: npt.NDArray[np.bool_] | None = None,
    ) -> Items:
        """Takes the rows just appended, returns the items that they complete.

        columns: reward, discount, action [M] as appended; steps: what append returned; q: the
        actor's Q values of the rows' observations, [M, num_actions]; mask: who has a row.
        """
        has_row = np.ones(len(last), dtype=np.bool_) if mask is None else mask
        moved = self._open & has_row
        self._returns += np.where(moved, self._factor * columns["reward"], 0.0)
        self._factor *= np.where(moved, self._gamma * columns["discount"], 1.0)
        self._age += moved
        complete = moved & ((self._age == self._n) | last)
        errors = self._returns + self._factor * q.max(1) - self._q_taken
        # By age: the oldest anchor of a stream first, so that its items keep their order.
        slots, streams = np.nonzero(complete)
        order = np.argsort(self._step[slots, streams], kind="stable")
        slots, streams = slots[order], streams[order]
        ready = Items(
            streams=streams,
            steps=self._step[slots, streams],
            priorities=np.abs(errors[slots, streams]).astype(np.float32),
        )
        self._open &= ~complete
        self._anchor(np.flatnonzero(has_row & ~last), columns["action"], steps, q)
        return ready

    def _anchor(
        self,
        streams: npt.NDArray[np.int64],
        action: npt.NDArray[Any],
        steps: npt.NDArray[np.int64],
        q: npt.NDArray[np.float32],
    ) -> None:
        slots = self._next[streams] % self._n
        self._next[streams] += 1
        at = (slots, streams)
        self._open[at] = True
        self._age[at] = 0
        self._step[at] = steps[streams]
        self._q_taken[at] = q[streams, action[streams]]
        self._returns[at] = 0.0
        self._factor[at] = 1.0
