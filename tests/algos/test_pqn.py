"""PQN's returns against a loop over the equation, its minibatches, and what it refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from algos.transitions import SPACES, gone_on
from oracle import OracleBatch, random_unrolls

from drlnet.algos import TABLE, make_algorithm, pqn
from drlnet.config import load
from drlnet.errors import ConfigError, UnknownKey
from drlnet.metrics.catalog import find


def naive(
    reward: np.ndarray, discount: np.ndarray, value: np.ndarray, last: np.ndarray,
    gamma: float, trace: float,
) -> list[float]:  # fmt: skip
    """G_0 .. G_T-1 of one unroll, each as the sum over how many rows it looks ahead.

    G = sum_n weight_n G^(n), the n-step returns weighted by trace^(n-1) (1 - trace), the last of
    them by what is left; a row that ends its episode is the last.
    """
    length, returns = len(reward), []
    for t in range(length):
        total, weight, gained, factor = 0.0, 1.0, 0.0, 1.0
        for n in range(t, length):
            gained += factor * reward[n]
            factor *= gamma * discount[n]
            final = n == length - 1 or bool(last[n])
            total += weight * (1.0 if final else 1 - trace) * (gained + factor * value[n])
            weight *= trace
            if final:
                break
        returns.append(total)
    return returns


@pytest.mark.parametrize("trace", [0.0, 0.65, 1.0])
def test_returns(trace: float) -> None:
    rng = np.random.default_rng(1)
    shape = (64, 17)
    reward, value = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    last = rng.random(shape) < 0.2
    terminated = (last & (rng.random(shape) < 0.5)) | (rng.random(shape) < 0.05)  # lost lives, too
    discount = np.where(terminated, 0, 1).astype(np.float32)
    found = pqn.lambda_returns(reward, discount, value, last, 0.97, trace)
    for index in range(shape[0]):
        known = naive(reward[index], discount[index], value[index], last[index], 0.97, trace)
        np.testing.assert_allclose(found[index], known, rtol=1e-5, atol=1e-5)


def test_the_edges_by_hand() -> None:
    one, value = np.ones((1, 2), np.float32), np.array([[5.0, 7.0]], np.float32)
    off, on = np.zeros((1, 2), bool), np.array([[True, False]])

    def first(discount: float, last: np.ndarray) -> float:
        discounts = np.array([[discount, 1.0]], np.float32)
        return float(pqn.lambda_returns(one, discounts, value, last, 0.5, 1.0)[0, 0])

    assert first(1.0, off) == 1 + 0.5 * (1 + 0.5 * 7)
    assert first(0.0, on) == 1  # terminated: nothing is bootstrapped
    assert first(1.0, on) == 1 + 0.5 * 5  # truncated: from the final observation, no further
    assert first(0.0, off) == 1  # a lost life


def algorithm(**flags: Any) -> pqn.Pqn:
    settings = {"algo.unroll": 6, "algo.minibatch_size": 8, "replay.batch_size": 4, **flags}
    made = make_algorithm(
        load(flags={"algo.name": "pqn", "net.hidden_sizes": (8,), **settings}), SPACES
    )
    assert isinstance(made, pqn.Pqn)
    return made


def random_batch(algo: pqn.Pqn, seed: int = 0) -> OracleBatch:
    return random_unrolls(algo.tables()[TABLE].item, num_actions=4, obs_shape=(3,), seed=seed)


@pytest.mark.parametrize("stack", [1, 3])
def test_a_step_takes_each_acted_row_once_an_epoch(stack: int) -> None:
    algo = algorithm(**{"net.frame_stack": stack, "algo.epochs": 3})
    learner, batch = algo.learner("cpu", 1), random_batch(algo)
    seen: list[torch.Tensor] = []
    learner.online.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    learned = learner.step({TABLE: batch})  # type: ignore[dict-item]
    obs, last = batch.views["obs"], batch.views["last"]
    known = []
    for b, t in np.argwhere(~last[:, stack - 1 : -1]):
        place, frames = t + stack - 1, []
        for back in range(stack):
            began = max([i + 1 for i in range(place) if last[b, i]], default=0)
            frames.insert(0, obs[b, max(place - back, began)])
        known.append(np.stack(frames) if stack > 1 else frames[0])
    rows = torch.cat(seen).numpy()
    assert len(rows) == 3 * len(known)
    for epoch in np.split(rows, 3):
        assert sorted(map(bytes, epoch)) == sorted(map(bytes, known))
    assert learned.priorities == {} and learner.steps == 1
    assert all(find(f"client.learner.{name}") for name in learned.figures)
    assert learned.figures["updates"] == len(seen) == 3 * max(1, len(known) // 8)


def test_a_state_goes_on() -> None:
    algo = algorithm()
    gone_on(algo, [random_batch(algo)], [random_batch(algo, seed=5)])


def test_a_batch_of_last_rows_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"algo\.unroll"):
        algorithm(**{"algo.unroll": 1, "algo.minibatch_size": 1})


PLAIN = """
from dataclasses import dataclass
from drlnet.config import NetSettings, setting

class Plain:
    pass

class Normal:
    @dataclass(frozen=True)
    class Settings(NetSettings):
        norm: str = setting("none", "normalisation")
"""


def test_a_network_of_the_users_own_may_normalise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nets_of_a_test.py").write_text(PLAIN)
    monkeypatch.syspath_prepend(tmp_path)
    pqn = "algo.name=pqn"
    offered = load("CartPole-v1", sets=[pqn, "net.name=nets_of_a_test:Normal"]).net
    assert dataclasses.asdict(offered)["norm"] == "layer"
    with pytest.raises(UnknownKey, match=r"net\.norm"):  # which the user has said
        load("CartPole-v1", sets=[pqn, "net.name=nets_of_a_test:Plain", "net.norm=layer"])
