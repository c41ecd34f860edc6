"""Optimizers: torch's own, without torch's compiler, and APOLLO; with clipped gradients and a
decaying rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw
from torch.optim.radam import radam
from torch.optim.rmsprop import rmsprop

from drlnet.nets.settings import OptimizerSettings

_BETA2 = 0.999
_BETAS: dict[str, Any] = {"beta1": 0.9, "beta2": _BETA2}

Exchange = Callable[[Sequence[torch.Tensor], float | None], float | None]
"""Makes the params' gradients those of all ranks, the mean; returns the rate that all step with.

The rate it is given is None of one that has no gradient; None is returned once none has.
"""


class Optimizer:
    """The optimizer that the settings name. Not thread-safe.

    No param has a gradient before the first backward pass. One that a step finds without one, or
    that requires none any more, stays, and so does what is kept of it.
    Raises NotInstalled where apollo is named and its package is missing.
    """

    def __init__(
        self,
        settings: OptimizerSettings,
        params: Iterable[torch.Tensor],
        *,
        fused: bool = True,
    ) -> None:
        """fused: adam and radam by one kernel for all params and not a dozen for each."""
        settings.require_installed()
        self.exchange: Exchange | None = None  # with other ranks (drlnet.learning.ranks)
        self._settings = settings
        self._params = list(params)
        self._rule: Rule = (
            _apollo(self._params, settings.adam_epsilon)
            if settings.optimizer == "apollo"
            else Torchs(settings, self._params, fused)
        )

    def learning_rate(self, env_steps: int, spent: float) -> float:
        """The rate after that many env_steps, with that share of the run's budget spent.

        Linear from its start to its end, by whichever of the two has come further.
        """
        settings = self._settings
        start, end = settings.learning_rate, settings.learning_rate_end
        if end is None:
            return start
        steps = settings.learning_rate_env_steps
        share = max(spent, env_steps / steps if steps else 0.0)
        return start + min(1.0, share) * (end - start)

    @torch.no_grad()
    def step(self, env_steps: int = 0, spent: float = 0.0) -> None:
        """Steps along the gradients, and clears them. Arguments: as learning_rate's."""
        rate: float | None = self.learning_rate(env_steps, spent)
        if self.exchange is not None:
            rate = self.exchange(self._params, rate)
        assert rate is not None
        self._move(rate)

    @torch.no_grad()
    def follow(self) -> None:
        """Steps along other ranks' gradients until none of them has any more."""
        assert self.exchange is not None
        while (rate := self.exchange(self._params, None)) is not None:
            self._move(rate)

    def _move(self, rate: float) -> None:
        most = self._settings.max_grad_norm
        if most is not None and self.exchange is None:
            torch.nn.utils.clip_grad_norm_(self._params, most)
        elif most is not None:
            self._clip(most)
        self._rule.step(rate)
        for one in self._params:
            one.grad = None

    def _clip(self, most: float) -> None:
        """Clips as torch does, but to the bit alike in ranks whose gradients lie in other orders:
        each has chosen channels first or last by its own measurement."""
        grads = [one.grad for one in self._params if one.grad is not None]
        norms = [torch.linalg.vector_norm(grad.contiguous()) for grad in grads]
        scale = most / (torch.linalg.vector_norm(torch.stack(norms)) + 1e-6)
        for grad in grads:
            grad.mul_(scale.clamp(max=1.0))

    def state_dict(self) -> dict[str, Any]:
        """What is kept of every param, in their order."""
        return self._rule.state_dict()

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from the state_dict of an optimizer of params of the same shapes."""
        self._rule.load_state_dict(state)


class Rule(Protocol):
    """How params move along their gradients, and what is kept for that."""

    def step(self, rate: float) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


def _apollo(params: list[torch.Tensor], epsilon: float) -> Rule:
    from drlnet.nets.apollo import Apollo

    return Apollo(params, epsilon)


class Torchs:
    """Bit by bit as torch's class of the optimizer's name computes; but fused radam is rounded
    otherwise, by 1e-6 at most.

    adam (Kingma and Ba, 2015), adamw with weight decay 0.01 (Loshchilov and Hutter, 2019), radam
    (Liu et al., 2020), rmsprop (Hinton; decay 0.99): the functions that torch's classes call. The
    classes import torch's compiler when they are made: as much processor time as torch itself.
    """

    def __init__(self, settings: OptimizerSettings, params: list[torch.Tensor], fused: bool):
        self._settings, self._params = settings, params
        self._fused = fused and settings.optimizer != "rmsprop"
        self._taken = [0] * len(params)  # steps of each
        self._means = [torch.zeros_like(one) for one in self._params]
        self._squares = [torch.zeros_like(one) for one in self._params]
        # Where its kernels look for them.
        self._steps = [
            torch.zeros((), device=one.device if self._fused else "cpu") for one in self._params
        ]

    def step(self, rate: float) -> None:
        moving = [
            index
            for index, one in enumerate(self._params)
            if one.requires_grad and one.grad is not None
        ]
        for index in moving:
            self._taken[index] += 1
        # What corrects the bias of the moments is a number for all that are stepped at once.
        for taken in sorted({self._taken[index] for index in moving}):
            self._step([index for index in moving if self._taken[index] == taken], taken, rate)

    def _step(self, moving: list[int], taken: int, rate: float) -> None:
        """Steps those params, for each of which it is the step of that number."""
        params, means, squares, steps = (
            [part[index] for index in moving]
            for part in (self._params, self._means, self._squares, self._steps)
        )
        grads = [one.grad for one in params if one.grad is not None]
        name, epsilon = self._settings.optimizer, self._settings.adam_epsilon
        if name == "radam" and self._fused and (factor := _rectified(taken)):
            # That is Adam with this rate; what corrects the squares' bias leaves epsilon out.
            name, rate = "adam", factor * rate
            epsilon /= math.sqrt(1 - _BETA2**taken)
        common: dict[str, Any] = {"lr": rate, "eps": epsilon}
        if name == "adam":
            adam(
                params, grads, means, squares, [], steps, fused=self._fused, amsgrad=False,
                weight_decay=0.0, maximize=False, **_BETAS, **common,
            )  # fmt: skip
        elif name == "adamw":
            adamw(
                params, grads, means, squares, [], steps, fused=self._fused, amsgrad=False,
                weight_decay=0.01, maximize=False, **_BETAS, **common,
            )  # fmt: skip
        elif name == "radam":
            radam(
                params, grads, means, squares, steps, foreach=True, weight_decay=0.0,
                **_BETAS, **common,
            )  # fmt: skip
        else:
            rmsprop(
                params, grads, squares, [], [], steps, foreach=True, alpha=0.99, momentum=0.0,
                centered=False, weight_decay=0.0, **common,
            )  # fmt: skip

    def state_dict(self) -> dict[str, list[torch.Tensor]]:
        return {"means": self._means, "squares": self._squares, "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for own, given in zip(self.state_dict().values(), state.values(), strict=True):
            for tensor, value in zip(own, given, strict=True):
                tensor.copy_(value)
        self._taken = [int(taken) for taken in self._steps]


def _rectified(step: int) -> float:
    """RAdam's factor of Adam's rate at its n-th step; 0 in its first, which follow the means alone.

    rho: the length of the approximated average (Liu et al., 2020, algorithm 2).
    """
    most = 2 / (1 - _BETA2) - 1
    rho = most - 2 * step * _BETA2**step / (1 - _BETA2**step)
    if rho <= 5:  # as torch has it; the paper has 4
        return 0.0
    return math.sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
