"""Stacks of frames: one definition, for the learner's items and for the actor's newest rows.

Row t of an episode that began at row s is seen together with the k - 1 rows before it:

    stack(t) = o_{max(s, t-k+1)}, ..., o_{max(s, t-1)}, o_t        the oldest first, [k, *shape]

Where fewer than k rows are there, the first one is repeated. A table stores each frame once.
k = 1 is the observation itself, without an axis for the stack.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drlnet.client.specs import View
from drlnet.lazy import torch

if TYPE_CHECKING:
    from drlnet.envs import Rows


def stacks_view(k: int, low: int, high: int) -> View:
    """The view of column obs from which window_stacks() makes stack(low) .. stack(high)."""
    return View("obs", (low - k + 1, high))


def window_stacks(window: torch.Tensor, k: int) -> torch.Tensor:
    """The stacks [B, R, k, *shape] of what stacks_view shows, [B, R + k - 1, *shape]."""
    return window if k == 1 else window.unfold(1, k, 1).movedim(-1, 2)


def stack_view(k: int, row: int = 0, *, from_end: bool = False) -> View:
    """The view of column obs that shows stack(row), for items that stop with their episode."""
    return View("obs", row if k == 1 else (row - k + 1, row), from_end=from_end)


class Stacks:
    """stack(t) of the newest row of each of M streams. Not thread-safe."""

    def __init__(self, num_streams: int, k: int):
        self._shape, self._k = num_streams, k
        self._frames: npt.NDArray[Any] | None = None  # [M, k, *shape]

    def push(self, rows: Rows) -> Rows:
        """The same rows with stacks [M, k, *shape] as obs, valid until the next push.

        Where rows.mask leaves a stream out, its stack stays.
        """
        if self._k == 1:
            return rows
        if self._frames is None:
            shape = (self._shape, self._k, *rows.obs.shape[1:])
            self._frames = np.empty(shape, rows.obs.dtype)
        frames, first = self._frames, rows.first
        if rows.mask is None:
            frames[:, :-1] = frames[:, 1:]
            frames[:, -1] = rows.obs
        else:
            frames[rows.mask, :-1] = frames[rows.mask, 1:]
            frames[rows.mask, -1] = rows.obs[rows.mask]
            first = first & rows.mask
        if first.any():
            frames[first] = rows.obs[first, None]
        return replace(rows, obs=frames)


def stack_rows(last: npt.NDArray[np.bool_], k: int) -> npt.NDArray[np.int64]:
    """Which rows of a window make the stacks, for windows that run over episodes' ends.

    last: [B, W], whether a row ends its episode. Returns [B, W - k + 1, k]: the rows of stack(t)
    for t = k - 1 .. W - 1. Rows before an episode's first are its first, as in the module's text.
    """
    rows = np.arange(last.shape[1])
    began = np.zeros(last.shape, np.int64)
    began[:, 1:] = np.where(last[:, :-1], rows[1:], 0)
    began = np.maximum.accumulate(began, axis=1)  # the first row of each row's episode
    newest, back = rows[k - 1 :, None], np.arange(k - 1, -1, -1)
    stacked: npt.NDArray[np.int64] = np.maximum(newest - back, began[:, k - 1 :, None])
    return stacked
