"""Networks: torch modules, one file each, and their params as bytes."""

from drlnet.nets.mlp import Mlp

__all__ = ["Mlp"]
