"""PER on a GPU as AMPER's authors compare to it: a cumulative sum and binary searches there.

Source: Li et al., "Associative Memory Based Experience Replay for Deep Reinforcement Learning"
(arXiv 2207.07791).
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from drlnet.bench.peers.base import ALPHA, BETA, FLOOR, Floats, Indices, Peer


class TorchPeer(Peer):
    """Indices, weights and new priorities stay on the device, where a learner has them."""

    device: ClassVar[str] = "cpu"

    def given(self, indices: Indices, priorities: Floats) -> tuple[Any, Any]:
        given = self._tensor(indices), self._tensor(priorities)
        self._synchronize()
        return given

    def _tensor(self, values: Indices | Floats) -> torch.Tensor:
        """On the device. Raises what torch raises where there is none such."""
        if self.device == "cpu":
            torch.set_num_threads(1)  # one core, as everybody has
        return torch.from_numpy(values).to(self.device)

    def _synchronize(self) -> None:
        """Waits until what was asked of the device is finished."""
        if self.device != "cpu":
            torch.cuda.synchronize(self.device)


class TorchCumsum(TorchPeer):
    includes = "draw: cumulative sum of all masses, binary searches, weights; update: power, store"

    def __init__(self, priorities: Floats) -> None:
        self._masses = _mass(self._tensor(priorities))

    def draw(self, batch: int) -> tuple[Any, Any]:
        sums = torch.cumsum(self._masses, 0, dtype=torch.float64)
        inside = torch.rand(batch, dtype=torch.float64, device=self.device)
        targets = (torch.arange(batch, device=self.device) + inside) * (sums[-1] / batch)
        indices = torch.searchsorted(sums, targets, right=True).clamp_(max=len(sums) - 1)
        weights = (self._masses[indices] / sums[-1] * len(sums)) ** -BETA
        weights /= weights.max()
        self._synchronize()
        return indices, weights

    def update(self, indices: Any, priorities: Any) -> None:
        self._masses[indices] = _mass(priorities)
        self._synchronize()


class CudaCumsum(TorchCumsum):
    includes = f"{TorchCumsum.includes}; on the GPU, until it has finished"
    device = "cuda"


def _mass(priorities: torch.Tensor) -> torch.Tensor:
    return priorities.clamp(min=FLOOR) ** ALPHA
