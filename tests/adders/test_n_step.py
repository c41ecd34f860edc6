"""Initial priorities against the learner's own equation on the oracle's items, in every mode."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from oracle import OracleTable
from toy import TOY

from drlnet.adders import (
    NStepErrors,
    n_step_targets,
    transition_columns,
    transition_item,
    transition_row,
)
from drlnet.config import EnvConfig
from drlnet.envs import make_envs, ticks


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("longest", [1, 2, 7])
@pytest.mark.parametrize("n", [1, 3, 5])
def test_every_item_once_with_its_own_error(n: int, longest: int, mode: AutoresetMode) -> None:
    num_envs, num_actions = 3, 4
    envs, spaces = make_envs(
        EnvConfig(id=TOY, kwargs={"longest": longest}), num_envs, autoreset_mode=mode
    )
    table = OracleTable(transition_columns(spaces), transition_item(n), capacity=10_000)
    writer = table.writer(num_envs)
    errors = NStepErrors(num_envs, n, 0.9)
    rng = np.random.default_rng(n + longest)
    q_of: dict[tuple[int, int], np.ndarray] = {}
    step = (None, envs.reset(5))
    for _ in range(50):
        for rows in ticks(step):
            q = rng.normal(size=(num_envs, num_actions)).astype(np.float32)
            action = rng.integers(num_actions, size=num_envs)
            columns = transition_row(rows, action)
            steps = writer.append(columns, rows.first, rows.last, rows.mask)
            for i in np.flatnonzero(steps >= 0):
                q_of[i, int(steps[i])] = q[i]
            ready = errors.push(columns, rows.last, steps, q, rows.mask)
            for stream, at in zip(ready.streams, ready.steps, strict=True):
                assert (int(stream), int(at)) not in table.items
            writer.add_items(ready.streams, ready.steps, ready.priorities)
        step = envs.step(action)
    envs.close()

    for stream, held in enumerate(table.streams):
        for row in held.rows:
            known = (stream, row.step) in table.items
            complete = not row.last and table.length(stream, row.step) is not None
            assert known == complete  # as soon as its future is known, and not before
            if not known:
                continue
            views, length = table.read(stream, row.step)
            returns, factor = n_step_targets(
                torch.from_numpy(views["reward"])[None],
                torch.from_numpy(views["discount"])[None],
                torch.tensor([length]),
                0.9,
            )
            bootstrap = float(factor) * q_of[stream, row.step + length].max()
            taken = q_of[stream, row.step][views["action"]]
            expected = abs(float(returns) + bootstrap - taken)
            assert table.items[stream, row.step].priority == pytest.approx(expected, rel=1e-4)
