"""What peers that use torch have in common: a device, and tensors on it."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from drlnet.bench.peers.peer import Floats, Indices, Peer


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
