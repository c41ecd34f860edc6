"""APOLLO against the paper's equations, and its state."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from drlnet import train
from drlnet.errors import NotInstalled
from drlnet.nets.optimizers import Optimizer
from drlnet.nets.params import pack_state, unpack_state
from drlnet.nets.settings import OptimizerSettings

SETTINGS = OptimizerSettings(
    optimizer="apollo", learning_rate=1e-2, adam_epsilon=1e-6, max_grad_norm=None
)


@pytest.fixture
def package() -> None:
    """What the extra `apollo` brings."""
    pytest.importorskip("apollo_torch")


def of_paper(param: np.ndarray, grads: list[np.ndarray], projections: list[np.ndarray]) -> Any:
    """The params after each step, channel by channel; projections: [r, smaller side]."""
    tall = param.shape[0] >= param.shape[1]  # channels are rows
    param = param.copy() if tall else param.T.copy()
    channels, rank = param.shape[0], len(projections[0])
    means, squares = np.zeros((channels, rank)), np.zeros((channels, rank))
    size = None
    for t, (given, projection) in enumerate(zip(grads, projections, strict=True), 1):
        grad = given if tall else given.T
        scaled = np.empty_like(grad)
        for j in range(channels):
            projected = projection @ grad[j]
            means[j] = 0.9 * means[j] + 0.1 * projected
            squares[j] = 0.999 * squares[j] + 0.001 * projected**2
            step = means[j] / (np.sqrt(squares[j]) + 1e-6)
            scaled[j] = grad[j] * np.linalg.norm(step) / np.linalg.norm(projected)
        if size is not None and np.linalg.norm(scaled) > 1.01 * size:
            scaled *= 1.01 * size / np.linalg.norm(scaled)
        size = np.linalg.norm(scaled)
        param -= 1e-2 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * scaled
        yield param if tall else param.T


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("shape", [(64, 40), (36, 96), (48, 48)])
def test_a_matrix_moves_as_the_paper_says(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    own = nn.Parameter(torch.from_numpy(rng.normal(size=shape).astype(np.float32)))
    optimizer, begun = Optimizer(SETTINGS, [own]), own.detach().numpy().copy()
    # Of growing size, so that the limit is met.
    grads = [(rng.normal(size=shape) * 1.5**t).astype(np.float32) for t in range(6)]
    moved, projections = [], []
    for grad in grads:
        own.grad = torch.from_numpy(grad.copy())
        optimizer.step()
        moved.append(own.detach().numpy().copy())
        drawn = optimizer.state_dict()["params"][0]["projection"].numpy()
        projections.append(drawn if shape[0] >= shape[1] else drawn.T)
    assert projections[0].shape == (min(shape) // 4, min(shape))
    assert all(np.array_equal(one, projections[0]) for one in projections)
    assert np.var(projections[0]) * (min(shape) // 4) == pytest.approx(1, abs=0.3)
    for ours, papers in zip(moved, of_paper(begun, grads, projections), strict=True):
        np.testing.assert_allclose(ours, papers, rtol=1e-4, atol=1e-5)


def net() -> nn.Module:
    """A convolution, a large dense layer and a head."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 128), nn.Linear(128, 4)
    )


def descend(optimizer: Optimizer, of: nn.Module, steps: int, seed: int) -> None:
    torch.manual_seed(seed)
    for _ in range(steps):
        of(torch.randn(4, 1, 10, 10)).square().mean().backward()
        optimizer.step()


def size(value: Any) -> int:
    """The bytes of a state's tensors."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return sum(map(size, parts))


@pytest.mark.usefixtures("package")
def test_its_state_is_a_fraction_of_adams() -> None:
    states = {}
    for name in ("adam", "apollo"):
        made = net()
        optimizer = Optimizer(OptimizerSettings(optimizer=name), made.parameters())
        descend(optimizer, made, 1, 0)
        states[name] = size(optimizer.state_dict())
    dense, rank, rest = 512 * 128, 32, 8 * 9 + 8 + 128 + 4 * 128 + 4
    assert states["adam"] == 4 * (2 * (dense + rest) + 6)  # and a count for each param
    # Moments of the projection, the projection, and the last step's size.
    assert states["apollo"] == 4 * (2 * (512 * rank + rest) + 128 * rank + 1)


@pytest.mark.usefixtures("package")
def test_a_kept_state_goes_on_as_it_would_have() -> None:
    """Over the 200th step, at which a projection is drawn anew."""
    first = net()
    kept = Optimizer(SETTINGS, first.parameters())
    descend(kept, first, 150, 1)
    second = copy.deepcopy(first)
    resumed = Optimizer(SETTINGS, second.parameters())
    blob = pack_state({"optimizer": kept.state_dict()}, "a", {})
    resumed.load_state_dict(unpack_state(blob, "a", "test")["optimizer"])
    before = kept.state_dict()["params"][2]["projection"].clone()
    for optimizer, of in ((kept, first), (resumed, second)):
        descend(optimizer, of, 60, 2)
    assert all(map(torch.equal, first.parameters(), second.parameters()))
    assert not torch.equal(before, kept.state_dict()["params"][2]["projection"])


def test_a_missing_package_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apollo_torch", None)
    with pytest.raises(NotInstalled, match="apollo-torch is not installed") as caught:
        Optimizer(SETTINGS, net().parameters())
    assert caught.value.remedy == "pip install 'drlnet[apollo]'"


def test_a_run_refuses_before_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apollo_torch", None)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotInstalled):
        train("CartPole-v1", settings={"algo.optimizer": "apollo"}, quiet=True)
    assert not list(tmp_path.iterdir())
