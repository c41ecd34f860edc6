"""Devices of torch: where tensors live."""

from __future__ import annotations

import torch

from drlnet.errors import ConfigError


def usable_device(name: str) -> torch.device:
    """The torch device of that name; ConfigError when this machine or this torch lacks it."""
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"learner.device = {name!r} cannot be used: {reason}",
            "use --set learner.device=cpu, or a device that torch finds",
        ) from error
    return device
