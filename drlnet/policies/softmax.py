"""A stochastic policy: actions drawn from softmax(logits), as actor-critics act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from drlnet.envs import Streams


class Softmax:
    """Draws from the streams' generator. Not thread-safe."""

    def __init__(self, streams: Streams):
        self._rng = streams.rng

    def choose(
        self, log_probabilities: npt.NDArray[Any]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Actions [M], and their log-probabilities [M], from those of all actions [M, A]."""
        # The largest of log p + Gumbel noise is a draw from p.
        noise = self._rng.gumbel(size=log_probabilities.shape)
        action: npt.NDArray[np.int64] = (log_probabilities + noise).argmax(1)
        taken = np.take_along_axis(log_probabilities, action[:, None], 1)[:, 0]
        return action, taken.astype(np.float32)
