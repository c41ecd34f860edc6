"""Names the cause of numbers that no priority or loss may be."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import torch

from drlnet.config import Config
from drlnet.errors import BadPriority, UserCodeError


def refused(config: Config, error: BadPriority) -> BadPriority | UserCodeError:
    """The error of priorities that a client has refused: a negative number is the algorithm's."""
    negative = re.search(r" is (-\d\S*)$", error.cause)
    if negative is None:
        return diverged(config.env.id, error.cause)
    return UserCodeError(
        f"algo.name = {config.algo.name!r} gave the negative priority {negative[1]}",
        "give finite priorities of 0 or more: the size of an error, without its sign",
    )


def require_finite(env_id: str, figures: Mapping[str, float | torch.Tensor]) -> None:
    """Raises BadPriority for a loss that is not finite: not every algorithm has priorities."""
    loss = float(figures.get("loss", 0.0))
    if not math.isfinite(loss):
        raise diverged(env_id, f"the loss is {loss}")


def diverged(env_id: str, sign: str) -> BadPriority:
    """The error of an algorithm whose numbers are no longer finite: it lies in params or
    environment. sign: that says so."""
    return BadPriority(
        f"the numbers of this run are no longer finite ({sign}): the params have diverged, "
        f"or {env_id} gives rewards or observations that are NaN or infinite",
        "lower the learning rate (--help-config lists it); play the environment alone",
    )
