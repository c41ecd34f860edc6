"""Networks: torch modules, one file each, their optimiser, device, and their params as bytes."""

from drlnet.nets.adam import Adam
from drlnet.nets.device import usable_device
from drlnet.nets.mlp import Mlp

__all__ = ["Adam", "Mlp", "usable_device"]
