"""Initial priorities against the learner's own equation on the oracle's items, in every mode."""

from __future__ import annotations

from typing import Any

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
from drlnet.errors import ConfigError


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


def test_rows_that_do_not_fit_are_refused_in_words() -> None:
    errors = NStepErrors(2, 1, 0.9)
    rows: dict[str, Any] = {
        "reward": [1.0, 2.0], "discount": [1.0, 1.0], "action": np.array([3, -1]),
    }  # fmt: skip
    q, ends = np.zeros((2, 8))[:, ::2], np.array([False, True])
    wrong: list[tuple[str, Any, Any]] = [
        (r"q has shape \(2, 0\)", {}, q[:, :0]),
        (r"q has shape \(2,\)", {}, q[:, 0]),
        ("action is 4, where q has 4 actions", {"action": [4, 0]}, q),
        ("action is -1, where q has 4 actions", {"action": [-1, 0]}, q),
        ("action is an array of float64", {"action": np.zeros(2)}, q),
        (r"reward has shape \(3,\)", {"reward": np.zeros(3)}, q),
    ]
    for said, columns, values in wrong:
        with pytest.raises(ConfigError, match=said):
            errors.push({**rows, **columns}, ends, np.arange(2), values)
    # Other dtypes will do, and so will any action of a row that took none.
    assert len(errors.push(rows, ends, np.arange(2), q).steps) == 0
    assert errors.push(rows, ends, np.arange(1, 3), q).priorities == pytest.approx([1.0])
