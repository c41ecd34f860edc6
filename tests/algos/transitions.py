"""Batches of random transitions, and DQN's targets by a loop over the equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from oracle import OracleBatch

from drlnet.algos import TABLE
from drlnet.algos.dqn import DqnLearner
from drlnet.envs import EnvSpaces

SPACES = EnvSpaces(obs_shape=(3,), obs_dtype="float32", num_actions=4, first_action=0)


def batch_of(views: dict[str, np.ndarray], length: np.ndarray) -> OracleBatch:
    size = len(length)
    return OracleBatch(
        views=views,
        keys=np.arange(size, dtype=np.uint64),
        probabilities=np.full(size, 1 / size, np.float32),
        length=length.astype(np.uint32),
        item_count=size,
        age=np.zeros(size, np.int64),
        env_steps=size,
        items_created=size,
        items_drawn=size,
    )


def random_batch(size: int, n: int, seed: int = 0) -> OracleBatch:
    rng = np.random.default_rng(seed)
    length = rng.integers(1, n + 1, size)
    reward = rng.normal(size=(size, n)).astype(np.float32)
    discount = (rng.random((size, n)) < 0.8).astype(np.float32)
    behind = np.arange(1, n + 1) > length[:, None]
    reward[behind] = discount[behind] = 0.0  # as the table pads
    views = {
        "obs": rng.normal(size=(size, 3)).astype(np.float32),
        "next_obs": rng.normal(size=(size, 3)).astype(np.float32),
        "action": rng.integers(4, size=size).astype(np.int32),
        "reward": reward,
        "discount": discount,
    }
    return batch_of(views, length)


def targets_by_loop(learner: DqnLearner, batch: OracleBatch) -> list[float]:
    config = learner.settings
    online = learner.online(torch.from_numpy(batch.views["next_obs"])).detach().numpy()
    target = learner.target(torch.from_numpy(batch.views["next_obs"])).numpy()
    targets = []
    for i, m in enumerate(batch.length):
        value, survived = 0.0, 1.0
        for k in range(1, m + 1):
            value += config.gamma ** (k - 1) * survived * batch.views["reward"][i, k - 1]
            survived *= batch.views["discount"][i, k - 1]
        best = (online if config.double else target)[i].argmax()
        targets.append(value + config.gamma**m * survived * target[i, best])
    return targets


def disagree(learner: Any) -> None:
    """Lets the target network differ from the online one."""
    with torch.no_grad():
        for param in learner.target.parameters():
            param.add_(torch.randn_like(param))


def gone_on(
    algorithm: Any, before: Sequence[OracleBatch], after: Sequence[OracleBatch]
) -> tuple[Any, Any]:
    """Two learners, the second with the state that the first had before it took `after`; both end
    with the same params."""
    first, second = algorithm.learner("cpu", 1), algorithm.learner("cpu", 2)
    for batch in before:
        first.step({TABLE: batch})
    second.load_state_dict(first.state_dict())
    for learner in (first, second):
        for batch in after:
            learner.step({TABLE: batch})
    assert first.steps == second.steps == len(before) + len(after)
    for one, other in zip(first.params().values(), second.params().values(), strict=True):
        assert torch.equal(one, other)
    return first, second
