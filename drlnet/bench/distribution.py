"""How far is what AMPER draws from what PER draws, over its groups and scale?

A table of items with known priorities is drawn from often, each batch with a candidate set of its
own. Items fall into bins of equal mass by priority, so that PER draws from every bin alike; the
draws per bin are compared with that. PER itself stands beside, as the floor of what can be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from drlnet import native
from drlnet.bench.records import Records
from drlnet.client import Client, Column, Item, Sampler, Table, View
from drlnet.launch.signals import Stop

Floats = npt.NDArray[np.float64]
_BINS, _BATCH, _EXPONENT = 64, 512, 0.6

PRIORITIES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "log-normal": lambda random, n: random.lognormal(0.0, 1.0, n),
    "exponential": lambda random, n: random.exponential(1.0, n),
}


@dataclass(frozen=True)
class Distance:
    """How far one sampler's draws are from PER's. Frequencies are per bin, relative to PER's."""

    subject: str
    workload: str  # the distribution of priorities
    options: Mapping[str, float]
    items: int
    draws: int
    kl_nats: float  # KL(drawn || PER)
    largest_ratio: float  # the most that a bin's frequency differs, either way
    least_frequency: float
    most_frequency: float
    weight_error: float  # the most that the bins' mean of [drawn] / (n probability) is off 1
    suite: str = "distribution"
    op: str = field(default="draw 512")

    def to_dict(self) -> dict[str, Any]:
        """The result as a record holds it; a ratio without bound (a bin never drawn) is None."""
        return {
            name: None if isinstance(value, float) and not np.isfinite(value) else value
            for name, value in asdict(self).items()
        }


def _filled(client: Client, sampler: Sampler, priorities: Floats) -> Table:
    n = len(priorities)
    table = client.table(
        "distribution",
        columns={"index": Column("int32")},
        item=Item({"index": View("index")}),
        capacity=n,
        sampler=sampler,
    )
    with table.writer(1) as writer:
        for index, priority in enumerate(priorities):
            first, last = np.full(1, index == 0), np.zeros(1, np.bool_)
            steps = writer.append({"index": np.full(1, index)}, first, last)
            writer.add_items(np.zeros(1, np.int64), steps, np.full(1, priority))
    return table


def distance(
    sampler: str, options: Mapping[str, float], workload: str, items: int, batches: int
) -> Distance:
    """Draws `batches` batches of 512. Errors: ConfigError for options that the sampler refuses."""
    priorities = PRIORITIES[workload](np.random.default_rng(0), items)
    order = np.argsort(priorities)
    mass = priorities[order] ** _EXPONENT
    edges = np.cumsum(mass) - mass / 2
    bin_of = np.empty(items, np.int64)
    bin_of[order] = np.minimum(_BINS - 1, (edges / mass.sum() * _BINS).astype(np.int64))
    per = np.bincount(bin_of[order], mass / mass.sum(), _BINS)
    counts, weights = np.zeros(_BINS), np.zeros(_BINS)
    spec = Sampler(sampler, priority_exponent=_EXPONENT, options=options)
    with Client.in_process(native.Server(["memory:"])) as client:
        table = _filled(client, spec, priorities)
        for _ in range(batches):
            batch = table.sample(_BATCH)
            drawn = bin_of[batch.views["index"]]
            counts += np.bincount(drawn, minlength=_BINS)
            weights += np.bincount(drawn, 1 / batch.probabilities.astype(float), _BINS)
    draws = batches * _BATCH
    size = np.bincount(bin_of, minlength=_BINS)
    held = size > 0  # a few items leave bins empty
    frequency, relative = counts[held] / draws, counts[held] / draws / per[held]
    seen = frequency > 0
    with np.errstate(divide="ignore"):
        ratio = float(np.maximum(relative, 1 / relative).max())
    return Distance(
        subject=sampler,
        workload=workload,
        options=dict(options),
        items=items,
        draws=draws,
        kl_nats=float(np.sum(frequency[seen] * np.log(relative[seen]))),
        largest_ratio=ratio,
        least_frequency=float(relative.min()),
        most_frequency=float(relative.max()),
        weight_error=float(np.abs(weights[held] / draws / size[held] - 1).max()),
    )


def measure_distances(
    stop: Stop,
    report: Callable[[Distance], None],
    *,
    samplers: Sequence[str] = ("amper-k", "amper-fr", "amper-fr-prefix"),
    groups: Sequence[int] = (5, 10, 20, 50),
    scales: Sequence[float] = (0.1, 0.25, 0.5, 1.0),
    items: int = 4096,
    batches: int = 2000,
) -> Records[Distance]:
    """Every sampler with every setting over every distribution; report() is told of each.

    Stops early, with the results so far, when `stop` is set.
    """
    found: list[Distance] = []
    settings: list[tuple[str, Mapping[str, float]]] = [("prioritized", {})]
    settings += [
        (sampler, {"groups": group_count, "scale": scale})
        for sampler, group_count, scale in product(samplers, groups, scales)
    ]
    for workload, (sampler, options) in product(PRIORITIES, settings):
        if stop.is_set():
            break
        found.append(distance(sampler, options, workload, items, batches))
        report(found[-1])
    return Records(found, {"interrupted": stop.is_set()})
