"""A learner whose gradients are one CUDA graph, against one without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from drlnet.adders import Tensors
from drlnet.algos import make_algorithm
from drlnet.config import load
from drlnet.envs import find_spaces

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
SECOND = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="no second GPU")


def batch_of(rng: np.random.Generator, size: int, stack: int, device: str) -> Tensors:
    def floats(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.random(shape, np.float32)).to(device)

    def images() -> torch.Tensor:
        return torch.from_numpy(rng.integers(0, 256, (size, stack, 42, 42), np.uint8)).to(device)

    return {
        "obs": images(),
        "next_obs": images(),
        "action": torch.from_numpy(rng.integers(0, 6, size)).to(device),
        "reward": floats(size, 5),
        "discount": torch.ones(size, 5).to(device),
        "length": torch.full((size,), 5).to(device),
        "weights": floats(size),
    }


@pytest.mark.parametrize("device", ["cuda", pytest.param("cuda:1", marks=SECOND)])
def test_a_graph_gives_the_gradients_of_its_function(device: str) -> None:
    """Batches of another size are computed without it."""
    config = load("ALE/Pong-v5", flags={"algo.name": "dqn"}, sets=[f"learner.device={device}"])
    algorithm = make_algorithm(config, find_spaces(config.env))
    learner: Any = algorithm.learner(device, 1)
    rng = np.random.default_rng(1)
    for size in (32, 32, 16, 32):
        batch = batch_of(rng, size, config.net.frame_stack, device)
        loss, taken, _ = (one.clone() for one in learner._gradients(batch))
        grads = [param.grad.clone() for param in learner.online.parameters()]
        for param in learner.online.parameters():
            param.grad = None
        expected, expected_taken, _ = learner.gradients(batch)
        torch.testing.assert_close(taken, expected_taken, rtol=2e-2, atol=2e-2)
        torch.testing.assert_close(loss, expected, rtol=2e-2, atol=2e-2)
        for grad, param in zip(grads, learner.online.parameters(), strict=True):
            assert param.grad is not None and grad.abs().sum() > 0
            distance = (grad - param.grad).norm() / param.grad.norm()
            assert distance < 0.05  # bfloat16, and kernels that add in any order
        learner.optimizer.step()  # the params move, and the graph sees it
