"""Names the cause of numbers that are NaN or infinite: it lies in params or environment."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from drlnet.errors import BadPriority


def require_finite(env_id: str, figures: Mapping[str, float | torch.Tensor]) -> None:
    """Raises BadPriority for a loss that is not finite: not every algorithm has priorities."""
    loss = float(figures.get("loss", 0.0))
    if not math.isfinite(loss):
        raise diverged(env_id, f"the loss is {loss}")


def diverged(env_id: str, sign: str) -> BadPriority:
    """The error of an algorithm whose numbers are no longer finite. sign: that says so."""
    return BadPriority(
        f"the numbers of this run are no longer finite ({sign}): the params have diverged, "
        f"or {env_id} gives rewards or observations that are NaN or infinite",
        "lower the learning rate (--help-config lists it); play the environment alone",
    )
