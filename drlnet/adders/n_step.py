"""n-step transitions: a row's columns, the item that reads them, returns, and first priorities.

An item anchored at step t shows o_t, the action taken at it, and of the m = min(n, steps left)
rows behind it the rewards, the discounts (0 where terminated) and the last observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drlnet import native
from drlnet.adders.items import Items
from drlnet.adders.observations import observation_columns, observation_views
from drlnet.adders.stacks import stack_view
from drlnet.client.arguments import array, converted
from drlnet.client.specs import Column, Item, View
from drlnet.errors import ConfigError
from drlnet.lazy import torch

if TYPE_CHECKING:
    from drlnet.envs import EnvSpaces, Rows

# At hand, since numpy takes its time to find a type's dtype.
_BOOL, _INT32, _INT64 = np.dtype(np.bool_), np.dtype(np.int32), np.dtype(np.int64)
_FLOAT32 = np.dtype(np.float32)


def transition_columns(spaces: EnvSpaces) -> dict[str, Column]:
    """The columns of a row: reward and discount arrived with obs, action was taken at it.

    Where the environment says which actions are valid, action_mask came with obs as well.
    """
    columns = {
        **observation_columns(spaces),
        "action": Column("int32"),
        "reward": Column("float32"),
        "discount": Column("float32"),
    }
    if spaces.action_mask:
        columns["action_mask"] = Column("bool", (spaces.num_actions,))
    return columns


def transition_item(n: int, frame_stack: int = 1, spaces: EnvSpaces | None = None) -> Item:
    """The item that a learner reads: rows t .. t + n of one stream, and the rows stacked with them.

    spaces: what transition_columns was given; None for observations of one column, without masks.
    """
    masks = {"next_action_mask": View("action_mask", n, from_end=True)}
    return Item(
        views={
            **observation_views(spaces, "obs", stack_view(frame_stack)),
            **observation_views(spaces, "next_obs", stack_view(frame_stack, n, from_end=True)),
            "action": View("action", 0),
            "reward": View("reward", (1, n), pad="zero"),
            "discount": View("discount", (1, n), pad="zero"),
            **(masks if spaces is not None and spaces.action_mask else {}),
        },
        boundary="stop",
    )


def transition_row(rows: Rows, action: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    """The columns of M environments' rows, [M, ...] each; a LAST row's action is 0."""
    columns = {
        **(rows.leaves if rows.leaves is not None else {"obs": rows.obs}),
        "action": np.where(rows.last, 0, action).astype(np.int32),
        "reward": rows.reward,
        "discount": np.where(rows.terminated, np.float32(0), np.float32(1)),
    }
    if rows.action_mask is not None:
        columns["action_mask"] = rows.action_mask
    return columns


def n_step_targets(
    reward: torch.Tensor, discount: torch.Tensor, length: torch.Tensor, gamma: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """R and the bootstrap's factor gamma^m (d_1 ... d_m), of drlnet.algos.dqn's equations.

    reward, discount: [B, n] float32 (r_1 .. r_n); what stands behind m = length [B] is ignored.
    """
    steps = torch.arange(1, reward.shape[1] + 1, device=reward.device)
    inside = steps <= length[:, None]
    factor = torch.where(inside, gamma * discount, 1.0).cumprod(1)  # 1 behind m: the product stays
    before = torch.cat([torch.ones_like(factor[:, :1]), factor[:, :-1]], 1)
    returns = torch.where(inside, before * reward, 0.0).sum(1)
    return returns, factor[:, -1]


def lambda_targets(
    value: torch.Tensor, trace: torch.Tensor, reward: torch.Tensor, discount: torch.Tensor,
    length: torch.Tensor, gamma: float,
) -> torch.Tensor:  # fmt: skip
    """Lambda returns of replayed steps, which other params played than those that learn from them:
    G_0 [B] of drlnet.algos.dqn's equations.

    value, trace, reward, discount: [B, n] float32, v_k, lambda_k, r_k and d_k of k = 1 .. n; what
    stands behind m = length [B] is ignored, and so is lambda_m.
    """
    returns = torch.zeros_like(reward[:, 0])
    for k in reversed(range(reward.shape[1])):
        carried = trace[:, k] * (returns - value[:, k])
        ahead = value[:, k] + torch.where(k + 1 < length, carried, 0.0)
        step = reward[:, k] + gamma * discount[:, k] * ahead
        returns = torch.where(k < length, step, returns)
    return returns


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
        self._num_streams = num_streams
        self._native = native.NStepErrors(num_streams, n_step, gamma, reward_clip)

    def push(
        self,
        columns: Mapping[str, npt.NDArray[Any]],
        last: npt.NDArray[np.bool_],
        steps: npt.NDArray[np.int64],
        q: npt.NDArray[np.float32],
        mask: npt.NDArray[np.bool_] | None = None,
    ) -> Items:
        """Takes the rows just appended, returns the items that they complete.

        columns: reward, discount float32 and action int32 [M] as appended; steps: what append
        returned; q: the actor's Q values of the rows' observations, float32 [M, num_actions]; mask:
        the streams with a row. Native: the actor calls it at every step (native/src/adders).
        Raises ConfigError (shapes, dtypes, an action that q has not).
        """
        values = converted("q", q, _FLOAT32)
        if values.ndim != 2 or len(values) != self._num_streams or not values.size:
            raise ConfigError(
                f"q has shape {values.shape}", f"give ({self._num_streams}, num_actions)"
            )
        return Items(
            *self._native.push(
                self._row("reward", columns["reward"], _FLOAT32),
                self._row("discount", columns["discount"], _FLOAT32),
                self._row("action", columns["action"], _INT32),
                values,
                self._row("last", last, _BOOL),
                self._row("steps", steps, _INT64),
                None if mask is None else self._row("mask", mask, _BOOL),
            )
        )

    def _row(self, name: str, values: npt.ArrayLike, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        row = array(name, values, dtype)
        if len(row) != self._num_streams:
            raise ConfigError(f"{name} has shape {row.shape}", f"give one of {self._num_streams}")
        return row
