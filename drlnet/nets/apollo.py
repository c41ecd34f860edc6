"""APOLLO's step, by the package apollo-torch; imported when it is first used.

APOLLO (Zhu et al., "APOLLO: SGD-like Memory, AdamW-level Performance", arXiv 2412.05270) keeps
Adam's moments M, V not of a matrix's gradient G but of a random projection R of it to a quarter of
its smaller side. With them it scales each channel j, a line along the smaller side:

    U_j = G_j |M_j / (sqrt(V_j) + epsilon)| / |R_j|                   step: U rate sqrt(b2) / b1

with b1, b2 what corrects the moments' bias. |U| may not grow by more than 1% a step, and the
projection is drawn anew every 200 steps. The numbers are the paper's, without weight decay.

It leaves open what is not a large matrix: convolutions, biases and small heads take Adam's own
step. APOLLO saves memory where dense layers are large; it saves no time, as every step projects.
The package brings transformers and bitsandbytes, which take seconds to import.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from apollo_torch import APOLLOAdamW
from apollo_torch.random_projector import GradientProjector

_LEAST_SIDE = 32  # of a matrix that is projected
_PAPERS: Mapping[str, Any] = {
    "proj": "random",
    "proj_type": "std",
    "scale_type": "channel",
    "scale": 1.0,
    "update_proj_gap": 200,
}


class Apollo:
    """The package's optimizer over these params, and its state as tensors."""

    def __init__(self, params: Sequence[torch.Tensor], epsilon: float) -> None:
        self._params = list(params)
        groups = [{"params": [one], **_projection(one)} for one in params]
        self._package = APOLLOAdamW(groups, lr=0.0, eps=epsilon)

    def step(self, rate: float) -> None:
        """Steps along the gradients."""
        for group in self._package.param_groups:
            group["lr"] = rate
        self._package.step()

    def state_dict(self) -> dict[str, Any]:
        """What the package keeps of every param, in their order."""
        return {"params": [_plain(self._package.state[one]) for one in self._params]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from the state_dict of params of the same shapes."""
        for one, kept in zip(self._params, state["params"], strict=True):
            own = {name: _moved(value, one) for name, value in kept.items()}
            if "projection" in own:
                # Its other arguments are by default what they are told here.
                rank, seed = _projection(one)["rank"], own.pop("next_seed")
                projector = GradientProjector(rank, seed=seed)
                projector.ortho_matrix = own.pop("projection")
                own["projector"] = projector
            self._package.state[one] = own


def _projection(param: torch.Tensor) -> dict[str, Any]:
    """What the package is told of a param that is projected; nothing of another one."""
    if param.ndim != 2 or min(param.shape) < _LEAST_SIDE:
        return {}
    return {"rank": min(param.shape) // 4, **_PAPERS}


def _plain(state: Mapping[str, Any]) -> dict[str, Any]:
    """A param's state, the projector in parts."""
    kept = {name: value for name, value in state.items() if name != "projector"}
    if "projector" in state:
        projector = state["projector"]
        kept.update(projection=projector.ortho_matrix, next_seed=projector.seed)
    return kept


def _moved(value: Any, param: torch.Tensor) -> Any:
    return value.to(param.device).clone() if isinstance(value, torch.Tensor) else value
