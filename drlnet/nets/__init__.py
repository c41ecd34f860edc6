"""Networks: torch modules, one file each, their device, and their params as bytes."""

from drlnet.nets.device import usable_device
from drlnet.nets.mlp import Mlp

__all__ = ["Mlp", "usable_device"]
