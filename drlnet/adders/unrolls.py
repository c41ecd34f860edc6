"""Unrolls: T steps of one stream, over episodes' ends, that neither overlap nor leave gaps.

The unroll of rows t .. t + T shows o_t .. o_t+T-1 with the actions taken at them, and what arrived
with o_t+1 .. o_t+T; where an algorithm bootstraps by its learner's own values, o_t+T as well. A
LAST row in it took no action and is not a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from drlnet.adders.items import Items
from drlnet.adders.observations import observation_views
from drlnet.adders.stacks import stack_rows
from drlnet.client.specs import Item, View
from drlnet.config import AlgoSettings, setting

if TYPE_CHECKING:
    from drlnet.envs import EnvSpaces


@dataclass(frozen=True)
class UnrollSettings(AlgoSettings):
    """What an algorithm that learns from unrolls adds to its own settings."""

    unroll: int = setting(32, "steps of an unroll", low=2, high=4096)  # one could be a LAST row

    @property
    def horizon(self) -> int:
        """The steps of an unroll."""
        return self.unroll

    @property
    def period(self) -> int:
        """Unrolls follow each other."""
        return self.unroll


def unroll_item(
    spaces: EnvSpaces, length: int, frame_stack: int, extras: Mapping[str, View], *, final_obs: bool
) -> Item:
    """An item of `length` steps; final_obs: with the observation behind them. extras: more views.

    Its views obs [B, T + k - 1 (+ 1), *shape] and last [B, T + k] begin with the rows that the
    first stack of k = frame_stack frames reaches back to.
    """
    seen = View("obs", (1 - frame_stack, length - 1 + final_obs))
    return Item(
        views={
            **observation_views(spaces, "obs", seen),
            "last": View("last", (1 - frame_stack, length)),
            "action": View("action", (0, length - 1)),
            "reward": View("reward", (1, length)),
            "discount": View("discount", (1, length)),
            **extras,
        },
        boundary="cross",
        period=length,
    )


def unroll_items(length: int, newest: npt.NDArray[np.int64]) -> Items:
    """The unrolls that the newest rows [M] complete, anchored at their first row."""
    streams = np.flatnonzero((newest > 0) & (newest % length == 0))
    return Items(streams, newest[streams] - length)


def unroll_frames(last: npt.NDArray[np.bool_], frame_stack: int) -> npt.NDArray[np.int64]:
    """Which frames make each row's stack: indices [B x R, k] into obs as [B x W, *shape].

    last: [B, W], of the rows of obs; R = W - k + 1.
    """
    begins: npt.NDArray[np.int64] = last.shape[1] * np.arange(len(last))
    return (stack_rows(last, frame_stack) + begins[:, None, None]).reshape(-1, frame_stack)
