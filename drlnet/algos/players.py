"""Players: networks that act and do not learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from drlnet.adders import Stacks
from drlnet.algos.contract import Params
from drlnet.lazy import torch
from drlnet.nets import frozen

if TYPE_CHECKING:
    from drlnet.envs import Rows


class Present:
    """The environments that have a row, for networks: others need no forward pass.

    The first one stands for those that are missing up to a power of two: a network meets few sizes.
    """

    def __init__(self, rows: Rows, device: torch.device):
        """device: the network's."""
        self._count, self._device = len(rows.last), device
        self._chosen: npt.NDArray[np.int64] | None = None
        if rows.mask is not None:
            chosen = np.flatnonzero(rows.mask)
            size = 1 << max(0, len(chosen) - 1).bit_length()
            if len(chosen) and size < self._count:
                self._chosen = np.concatenate([chosen, np.repeat(chosen[:1], size - len(chosen))])

    def of(self, values: npt.NDArray[Any]) -> torch.Tensor:
        """Their part of values [M, ...], at the device."""
        part = values if self._chosen is None else values[self._chosen]
        return torch.from_numpy(part).to(self._device)

    def spread(self, part: torch.Tensor) -> npt.NDArray[Any]:
        """[M, ...], with their part in its place and zeros elsewhere."""
        values: npt.NDArray[Any] = part.cpu().numpy()
        if self._chosen is None:
            return values
        whole = np.zeros((self._count, *values.shape[1:]), values.dtype)
        whole[self._chosen] = values
        return whole


class NetPlayer:
    """A network that acts with the params that it is given. An agent or a player adds `act`."""

    def __init__(self, net: torch.nn.Module):
        self.net = frozen(net)
        self.device = torch.device("cpu")

    def to(self, device: torch.device) -> None:
        """Computes at this device from now on."""
        self.net.to(device)
        self.device = device

    def load(self, params: Params) -> None:
        """Plays with these params from now on. Raises CheckpointMismatch where they do not fit."""
        from drlnet.nets.params import load_into

        load_into(self.net, params)


class GreedyQ(NetPlayer):
    """Plays the action of the largest Q value. Not thread-safe."""

    def __init__(self, net: torch.nn.Module, stacks: Stacks | None = None):
        super().__init__(net)
        self._stacks = stacks

    def values(self, rows: Rows) -> npt.NDArray[np.float32]:
        """Q values [M, num_actions], -inf of actions that are not valid."""
        if self._stacks is not None:
            rows = self._stacks.push(rows)
        present = Present(rows, self.device)
        with torch.inference_mode():
            values: npt.NDArray[np.float32] = present.spread(self.net(present.of(rows.obs)))
        if rows.action_mask is not None:
            values = np.where(rows.action_mask, values, np.float32(-np.inf))
        return values

    def act(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Actions [M]."""
        action: npt.NDArray[np.int64] = self.values(rows).argmax(1)
        return action
