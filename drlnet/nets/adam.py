"""The optimiser: torch's Adam, without torch's compiler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch.optim.adam import adam


class Adam:
    """torch.optim.Adam (Kingma and Ba, 2015) bit by bit: the function that it calls, and its state.

    The class imports torch's compiler when it is made: as much processor time as torch itself.
    fused: by one kernel for all params and not a dozen for each. Every param has a gradient at each
    step, and none before the first backward pass. Not thread-safe.
    """

    def __init__(
        self, params: Iterable[torch.Tensor], learning_rate: float, epsilon: float, *, fused: bool
    ) -> None:
        self._params = list(params)
        self._learning_rate, self._epsilon, self._fused = learning_rate, epsilon, fused
        self._means = [torch.zeros_like(one) for one in self._params]
        self._squares = [torch.zeros_like(one) for one in self._params]
        # Where its kernels look for them.
        self._steps = [
            torch.zeros((), device=one.device if fused else "cpu") for one in self._params
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Along the gradients, which are none afterwards."""
        grads = [one.grad for one in self._params if one.grad is not None]
        assert len(grads) == len(self._params)
        adam(
            self._params, grads, self._means, self._squares, [], self._steps, fused=self._fused,
            amsgrad=False, beta1=0.9, beta2=0.999, lr=self._learning_rate, weight_decay=0.0,
            eps=self._epsilon, maximize=False,
        )  # fmt: skip
        for one in self._params:
            one.grad = None

    def state_dict(self) -> dict[str, list[torch.Tensor]]:
        """The moments and steps of every param, in their order."""
        return {"means": self._means, "squares": self._squares, "steps": self._steps}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Sequence[torch.Tensor]]) -> None:
        """Goes on from the state_dict of an optimiser of params of the same shapes."""
        for own, given in zip(self.state_dict().values(), state.values(), strict=True):
            for tensor, value in zip(own, given, strict=True):
                tensor.copy_(value)
