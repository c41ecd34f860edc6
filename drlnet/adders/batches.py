"""A batch as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from drlnet.adders.observations import Leaf, joined
from drlnet.client import Batch
from drlnet.client.device_rows import moved
from drlnet.lazy import torch

if TYPE_CHECKING:
    from drlnet.envs import EnvSpaces

Tensors = dict[str, "torch.Tensor"]


def tensors(batch: Batch, device: torch.device, spaces: EnvSpaces | None = None) -> Tensors:
    """The views of a batch and its `length` [B] int64 as tensors on that device.

    Lent until the learner's next step: on the CPU they share the memory of the batch, which later
    ones overwrite. Clone what you keep.
    spaces: None for observations of one column; Dict observations come as a network sees them.
    """
    arrays = {**batch.views, "length": batch.length.astype(np.int64)}
    # First, as a mirror may have some of the leaves on the device already.
    views = {name: moved(view, device) for name, view in arrays.items()}
    return dict(joined(spaces, views, _flat))


def _flat(leaves: Mapping[str, Leaf], views: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The leaves side by side, as drlnet.adders.observations.flat() has arrays of them."""
    parts = []
    for name, leaf in leaves.items():
        view = views[name]
        if leaf.count is None:
            part = view.reshape(*view.shape[: view.dim() - len(leaf.shape)], leaf.size).float()
        else:
            part = (view[..., None] == torch.arange(leaf.count, device=view.device)).float()
        parts.append(part / 255 if view.dtype == torch.uint8 else part)
    return torch.cat(parts, -1)
