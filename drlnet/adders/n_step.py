"""n-step transitions: the columns of a row, the item that reads them, and items' first priorities.

An item anchored at step t shows o_t, the action taken at it, and of the m = min(n, steps left)
rows behind it the rewards, the discounts (0 where terminated) and the last observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drlnet.adders.items import Items
from drlnet.adders.stacks import stack_view
from drlnet.client.specs import Column, Item, View

if TYPE_CHECKING:
    from drlnet.envs import EnvSpaces, Rows


def transition_columns(spaces: EnvSpaces) -> dict[str, Column]:
    """The columns of a row: reward and discount arrived with obs, action was taken at it."""
    return {
        "obs": Column(spaces.obs_dtype, spaces.obs_shape),
        "action": Column("int32"),
        "reward": Column("float32"),
        "discount": Column("float32"),
    }


def transition_item(n: int, frame_stack: int = 1) -> Item:
    """What a learner reads of the rows t .. t + n of one stream, and of those that are stacked."""
    return Item(
        views={
            "obs": stack_view(frame_stack),
            "next_obs": stack_view(frame_stack, n, from_end=True),
            "action": View("action", 0),
            "reward": View("reward", (1, n), pad="zero"),
            "discount": View("discount", (1, n), pad="zero"),
        },
        boundary="stop",
    )


def transition_row(rows: Rows, action: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    """The columns of M environments' rows, [M, ...] each; a LAST row's action is 0."""
    return {
        "obs": rows.obs,
        "action": np.where(rows.last, 0, action).astype(np.int32),
        "reward": rows.reward,
        "discount": np.where(rows.terminated, np.float32(0), np.float32(1)),
    }


class NStepErrors:
    """First priorities: the n-step TD errors of an actor's own steps, once their future is known.

    The equation is the learner's (see drlnet.algos.dqn), with the actor's own Q values in both
    places:

        |R + gamma^m (d_1 ... d_m) max_a Q(o_{t+m}, a) - Q(o_t, a_t)|,  m = min(n, steps left)

    Follows M streams row by row. O(n M) memory and work; not thread-safe.
    reward_clip: the size to which the learner clips rewards.
    """

    def __init__(
        self, num_streams: int, n_step: int, gamma: float, reward_clip: float | None = None
    ):
        self._n = n_step
        self._gamma = gamma
        self._clip = reward_clip
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
        actor's Q values of the rows' observations, [M, num_actions]; mask: the streams with a row.
        """
        has_row = np.ones(len(last), dtype=np.bool_) if mask is None else mask
        moved = self._open & has_row
        reward = columns["reward"]
        if self._clip is not None:
            reward = np.clip(reward, -self._clip, self._clip)
        self._returns += np.where(moved, self._factor * reward, 0.0)
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
