"""Something for the learner to do with its batches: steps of a small Q-network in torch."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from drlnet import native
from drlnet.bench.measure import Replay
from drlnet.nets.mlp import Mlp
from drlnet.nets.optimizers import Optimizer
from drlnet.nets.q_net import QNet
from drlnet.nets.settings import MlpSettings, OptimizerSettings

_INPUTS, _ACTIONS = 1764, 6  # of an item's bytes, evenly chosen: what a pooling layer would leave


class Trainer:
    """Double DQN (van Hasselt et al., 2016) on bytes: the work matters, not what is learned."""

    def __init__(self, spec: native.TableSpec, out: NDArray[np.uint8], batch: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self._batch, self._out = batch, out
        layout: dict[str, Any] = spec.layout(batch)
        offset = layout["views"][0][0]
        item_bytes = (layout["total_bytes"] - offset) // batch
        items = out[offset : offset + batch * item_bytes].reshape(batch, item_bytes)
        self._items = torch.from_numpy(items)[:, :: max(1, item_bytes // _INPUTS)]
        self._keys = np.frombuffer(out, np.uint64, batch, layout["keys"])
        width = self._items.shape[1]
        self._net, self._target = (
            QNet(Mlp(MlpSettings(hidden_sizes=(128,)), (width,)), _ACTIONS, dueling=False)
            for _ in range(2)
        )
        self._optimizer = Optimizer(
            OptimizerSettings(learning_rate=1e-3, max_grad_norm=None),
            self._net.parameters(),
            fused=False,
        )

    def step(self, replay: Replay) -> None:
        """One batch, one step, its priorities."""
        replay.sample(self._batch, self._out)
        obs = self._items.float() / 255
        q = self._net(obs)
        with torch.no_grad():
            action = q.argmax(1, keepdim=True)
            goal = 0.99 * self._target(obs.flip(0)).gather(1, action)
        errors = goal - q.gather(1, action)
        loss = nn.functional.huber_loss(errors, torch.zeros_like(errors))
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        replay.update(self._keys, errors.detach().abs().flatten().numpy())

    def timed_steps(self, replay: Replay, latencies_ns: NDArray[np.uint64], budget_s: float) -> int:
        """A timed loop of steps."""
        end_ns = time.monotonic_ns() + int(budget_s * 1e9)
        for count in range(len(latencies_ns)):
            before_ns = time.monotonic_ns()
            if before_ns >= end_ns:
                return count
            self.step(replay)
            latencies_ns[count] = time.monotonic_ns() - before_ns
        return len(latencies_ns)
