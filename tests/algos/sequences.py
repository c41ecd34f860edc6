"""R2D2's equations as loops, rows that an agent played, and batches of its items."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from algos import transitions
from algos.transitions import SPACES
from oracle import OracleBatch

from drlnet.algos import TABLE, make_algorithm, r2d2
from drlnet.config import load
from drlnet.envs import EnvSpaces, Rows, Streams


def h(x: float, epsilon: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + epsilon * x


def naive(
    value: np.ndarray, reward: np.ndarray, discount: np.ndarray, length: int,
    settings: r2d2.R2d2Settings,
) -> list[float]:  # fmt: skip
    """y_0 .. y_m-1 of one sequence, h^-1 by bisection."""
    epsilon, found = settings.rescale_epsilon, []
    for t in range(length):
        total, factor = 0.0, 1.0
        end = min(t + settings.n_step, length)
        for row in range(t, end):
            total += factor * reward[row]
            factor *= settings.gamma * discount[row]
        low, high = -1e6, 1e6
        while high - low > 1e-9 * max(1.0, abs(low)):
            middle = (low + high) / 2
            low, high = (middle, high) if h(middle, epsilon) < value[end] else (low, middle)
        found.append(h(total + factor * low, epsilon))
    return found


def algorithm(spaces: EnvSpaces = SPACES, **flags: Any) -> r2d2.R2d2:
    settings = {
        "algo.units": 5, "algo.length": 8, "algo.period": 4, "algo.burn_in": 3,
        "net.hidden_sizes": (8,), "algo.max_grad_norm": None, **flags,
    }  # fmt: skip
    made = make_algorithm(load(flags={"algo.name": "r2d2", **settings}), spaces)
    assert isinstance(made, r2d2.R2d2)
    return made


def episodes(streams: int, steps: int, *, masked: bool = False) -> Iterator[Rows]:
    """Rows of episodes of 1 to 30 steps; now and then a stream has none. masked: some actions."""
    rng, valid = np.random.default_rng(5), np.random.default_rng(6)
    last = np.ones(streams, bool)
    left = np.zeros(streams, np.int64)
    for _ in range(steps):
        mask = rng.random(streams) < 0.9
        first = last & mask
        left = np.where(first, rng.integers(1, 31, streams), left - mask)
        last = np.where(mask, left == 0, last)
        terminated = last & mask & (rng.random(streams) < 0.5)
        allowed = (valid.random((streams, 4)) < 0.5) | (np.arange(4) == 2)
        yield Rows(
            obs=rng.normal(size=(streams, 3)).astype(np.float32),
            reward=np.where(first, 0, rng.normal(size=streams)).astype(np.float32),
            terminated=terminated, truncated=last & mask & ~terminated, first=first,
            last=last & mask, mask=mask,
            action_mask=allowed if masked else None,
        )  # fmt: skip


Played = tuple[list[Any], list[tuple[int, int]], list[float]]


def played(algo: r2d2.R2d2, count: int = 3, steps: int = 300) -> Played:
    """The rows of each stream, as (columns, first, last); all items' (stream, anchor); and their
    first priorities."""
    ordinals = np.arange(count)
    agent = algo.agent(Streams(ordinals, 0, count, np.random.default_rng(1)))
    agent.load(algo.learner("cpu", 1).params())
    rows: list[list[Any]] = [[] for _ in range(count)]
    items: list[tuple[int, int]] = []
    first: list[float] = []
    for one in episodes(count, steps, masked=algo.spaces.action_mask):
        _, columns = agent.act(one)
        assert one.mask is not None
        numbers = np.where(one.mask, [len(stream) for stream in rows], -1)
        for stream in np.flatnonzero(one.mask):
            own = {name: column[stream].copy() for name, column in columns[TABLE].items()}
            rows[stream].append((own, bool(one.first[stream]), bool(one.last[stream])))
        found = agent.items({TABLE: numbers})[TABLE]
        items += list(zip(found.streams.tolist(), found.steps.tolist(), strict=True))
        first += [] if found.priorities is None else found.priorities.tolist()
    return rows, items, first


def batch_of(algo: r2d2.R2d2, rows: list[Any], items: list[Any]) -> OracleBatch:
    """The items' views, as a table gathers them: rows behind an episode's end are padding."""
    views: dict[str, list[np.ndarray]] = {}
    lengths = []
    for stream, anchor in items:
        own = rows[stream]
        end = next(i for i in range(anchor, anchor + 9) if own[i][2] or i == anchor + 8)
        lengths.append(end - anchor)
        for name, view in algo.tables()[TABLE].item.views.items():
            low, high = view.bounds
            window = [own[min(anchor + at, end)][0][view.column] for at in range(low, high + 1)]
            if view.pad == "zero":
                window[end - anchor + 1 :] = [0 * one for one in window[end - anchor + 1 :]]
            views.setdefault(name, []).append(np.stack(window))
    stacked = {name: np.stack(view) for name, view in views.items()}
    return transitions.batch_of(stacked, np.array(lengths))
