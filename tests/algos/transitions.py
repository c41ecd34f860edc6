"""Random batches of n-step transitions."""

from __future__ import annotations

import numpy as np
from oracle import OracleBatch

from drlnet.envs import EnvSpaces

SPACES = EnvSpaces(obs_shape=(3,), obs_dtype="float32", num_actions=4, first_action=0)


def random_batch(size: int, n: int, seed: int = 0) -> OracleBatch:
    rng = np.random.default_rng(seed)
    length = rng.integers(1, n + 1, size)
    reward = rng.normal(size=(size, n)).astype(np.float32)
    discount = (rng.random((size, n)) < 0.8).astype(np.float32)
    behind = np.arange(1, n + 1) > length[:, None]
    reward[behind] = discount[behind] = 0.0  # as the table pads
    return OracleBatch(
        views={
            "obs": rng.normal(size=(size, 3)).astype(np.float32),
            "next_obs": rng.normal(size=(size, 3)).astype(np.float32),
            "action": rng.integers(4, size=size).astype(np.int32),
            "reward": reward,
            "discount": discount,
        },
        keys=np.arange(size, dtype=np.uint64),
        probabilities=np.full(size, 1 / size, np.float32),
        length=length.astype(np.uint32),
        item_count=size,
        age=np.zeros(size, np.int64),
        env_steps=size,
        items_created=size,
        items_drawn=size,
    )
