"""Players: networks that act and do not learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from drlnet.adders import Stacks
from drlnet.algos.contract import Params
from drlnet.lazy import torch
from drlnet.nets import frozen

if TYPE_CHECKING:
    from drlnet.envs import Rows


class NetPlayer:
    """A network that acts with the params that it is given. An agent or a player adds `act`."""

    def __init__(self, net: torch.nn.Module):
        self.net = frozen(net)

    def load(self, params: Params) -> None:
        """Plays with these params from now on."""
        self.net.load_state_dict(params)


class GreedyQ(NetPlayer):
    """Plays the action of the largest Q value. Not thread-safe."""

    def __init__(self, net: torch.nn.Module, stacks: Stacks | None = None):
        super().__init__(net)
        self._stacks = stacks

    def values(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Q values [M, num_actions], -inf of actions that are not valid."""
        if self._stacks is not None:
            rows = self._stacks.push(rows)
        obs = torch.from_numpy(rows.obs)
        with torch.inference_mode():
            values: npt.NDArray[np.float32] = self.net(obs).numpy()
        if rows.action_mask is not None:
            values = np.where(rows.action_mask, values, np.float32(-np.inf))
        return values

    def act(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Actions [M]."""
        action: npt.NDArray[np.int64] = self.values(rows).argmax(1)
        return action
