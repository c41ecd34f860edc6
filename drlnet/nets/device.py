"""Devices of torch: where tensors live."""

from __future__ import annotations

import torch

from drlnet.errors import ConfigError


def usable_device(name: str, setting: str = "learner.device") -> torch.device:
    """The torch device of that name; ConfigError when this machine or this torch lacks it.

    setting: the one that names it.
    """
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(
            f"{setting} = {name!r} cannot be used: {reason}",
            f"use --set {setting}=cpu, or a device that torch finds",
        ) from error
    return device
