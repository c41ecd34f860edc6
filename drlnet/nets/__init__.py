"""Networks: one file each, and one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn

from drlnet.nets.mlp import Mlp

# name -> constructor(obs_shape, num_actions, hidden_sizes, dueling)
NETS: dict[str, Callable[[Sequence[int], int, Sequence[int], bool], nn.Module]] = {
    "mlp": Mlp,
}

__all__ = ["NETS", "Mlp"]
