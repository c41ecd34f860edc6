"""Learners by gradient: a network, a target copy of it, an optimizer, and the state of them all."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from drlnet.algos.contract import Algorithm, Params
from drlnet.lazy import torch
from drlnet.nets import OptimizerSettings, frozen

if TYPE_CHECKING:
    from drlnet.client import Batch

S = TypeVar("S", bound=OptimizerSettings)


class NetLearner(Generic[S]):
    """An online network and its optimizer. A learner adds `step`. Not thread-safe."""

    def __init__(
        self, algo: Algorithm[Any], net: Callable[[], torch.nn.Module], device: str, seed: int
    ):
        """net: makes the network; its initial params follow from the seed."""
        from drlnet.nets.device import usable_device
        from drlnet.nets.optimizers import Optimizer

        torch.manual_seed(seed)
        self.settings, self.spaces = cast(S, algo.settings), algo.spaces
        self.device = usable_device(device)
        self.online = net().to(self.device)
        self.optimizer = Optimizer(self.settings, self.online.parameters())
        self.steps = 0

    def descend(self, loss: torch.Tensor, batch: Batch) -> None:
        """Steps along the gradient of a batch's loss, at the learning rate of its time."""
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step(batch.env_steps, batch.spent)

    def params(self) -> Params:
        """The online network's."""
        return self.online.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """The network, the optimizer and the steps taken."""
        return {
            "online": self.online.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "steps": self.steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict of the same settings.

        Raises CheckpointMismatch where the network is another one than it was.
        """
        from drlnet.nets.params import load_into

        load_into(self.online, state["online"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps = int(state["steps"])


class TargetNetLearner(NetLearner[S]):
    """A network, its optimizer, and a target network that follows by copies."""

    def __init__(
        self, algo: Algorithm[Any], net: Callable[[], torch.nn.Module], device: str, seed: int
    ):
        super().__init__(algo, net, device, seed)
        self.target = frozen(copy.deepcopy(self.online))

    def end_step(self, target_period: int) -> None:
        """Counts a learner step; every target_period-th one copies the network to the target."""
        self.steps += 1
        if self.steps % target_period == 0:
            self.target.load_state_dict(self.online.state_dict())

    def state_dict(self) -> dict[str, Any]:
        """Both networks, the optimizer and the steps taken."""
        return {**super().state_dict(), "target": self.target.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a state_dict of the same settings."""
        super().load_state_dict(state)
        self.target.load_state_dict(state["target"])
