"""A batch as tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from drlnet.adders.observations import observed
from drlnet.client import Batch
from drlnet.client.device_rows import moved

if TYPE_CHECKING:
    import torch

    from drlnet.envs import EnvSpaces

Tensors = dict[str, "torch.Tensor"]


def tensors(batch: Batch, device: torch.device, spaces: EnvSpaces | None = None) -> Tensors:
    """The views of a batch and its `length` [B] int64 as tensors on that device.

    spaces: None for observations of one column; Dict observations come as a network sees them.
    """
    arrays = observed(spaces, batch.views)
    views = {**arrays, "length": batch.length.astype(np.int64)}
    return {name: moved(view, device) for name, view in views.items()}
