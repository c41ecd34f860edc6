"""How fast a learner steps when a server feeds it, against the same steps on a batch that is here.

Another process appends rows as fast as the table's limiter lets it: at the rate at which actors of
a run come out even with the learner. Rows are random; every step of a stream anchors an item.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from drlnet.algos import TableSettings, make_algorithm
from drlnet.bench.engine import Course, Results
from drlnet.bench.processes import Lasting, WorkerFailed, Workers, served
from drlnet.bench.records import Record, Records, over
from drlnet.client import Batch, Client
from drlnet.client.device_rows import moved
from drlnet.config import Config
from drlnet.envs import find_spaces
from drlnet.errors import ConfigError
from drlnet.learning.feed import Feed
from drlnet.nets.memory import keep_freed_memory
from drlnet.roles.seeds import role_seed
from drlnet.roles.tables import open_tables

RESIDENT = "a batch that is here"
_STREAMS, _EPISODE_STEPS = 64, 1000
_WARM_UP = 30  # steps; a GPU's first ones choose and record kernels
_OPEN_S = 600.0  # while a table is filled, before the steps
_NEWS_S = 60.0


class Asked(Exception):
    """Another call is waiting."""


class Appender(Lasting):
    """Appends random rows. Called from another process (Worker)."""

    def __init__(self, address: str, config: Config) -> None:
        algorithm = make_algorithm(config, find_spaces(config.env))
        self._client = Client(address, name="appender")
        ((name, self._settings),) = algorithm.tables().items()
        self._table = open_tables(self._client, algorithm)[name]
        self._horizon = max(1, *(view.bounds[1] for view in self._settings.item.views.values()))

    def append(self) -> int:
        """Appends until asked for something else: the rows."""
        rng = np.random.default_rng(0)
        columns = {
            name: rng.integers(0, 2, (_STREAMS, *column.shape)).astype(column.dtype)
            for name, column in self._settings.columns.items()
        }
        rows, streams = 0, np.arange(_STREAMS)

        def held(_: float) -> None:
            if self.asked():
                raise Asked

        try:
            with self._table.writer(_STREAMS, held=held) as writer:
                while not self.asked():
                    step = rows // _STREAMS % _EPISODE_STEPS
                    ends = np.full(_STREAMS, step == _EPISODE_STEPS - 1)
                    steps = writer.append(columns, np.full(_STREAMS, step == 0), ends)
                    if step >= self._horizon:
                        writer.add_items(streams, steps - self._horizon, np.ones(_STREAMS))
                    rows += _STREAMS
        except Asked:
            pass  # what is held stays with the limiter
        return rows

    def close(self) -> None:
        self._client.close()


class Learner:
    """Learns from what the server sends, or from one batch. Called from another process."""

    def __init__(self, address: str, config: Config) -> None:
        torch.set_num_threads(config.learner.torch_threads)
        keep_freed_memory()
        self._config = config
        self._client = Client(address, name="learner", poll=config.server.poll)
        algorithm = make_algorithm(config, find_spaces(config.env))
        self._tables = open_tables(self._client, algorithm)
        self._learner: Any = algorithm.learner(config.learner.device, 0)

    def learn(self, rows: str | None, seconds: float) -> tuple[float, float]:
        """Steps per second, and the share of the time that they waited for batches. rows: of
        replay.rows; None: one batch again and again."""
        replay: Any = self._config.replay
        replay = replace(replay, rows=rows or "server")
        config = replace(self._config, replay=replay)
        algorithm = make_algorithm(config, find_spaces(config.env))
        device = config.learner.device
        feed = Feed(
            algorithm, self._tables, role_seed(0, "echo"), self._learner, self._client.stats,
            device=device,
        )  # fmt: skip
        try:
            if rows is not None:
                return self._measured(lambda: self._fed(feed), feed.flush, seconds)
            feed.draw()
            batches = {name: _resident(batch, device) for name, batch in feed.take().items()}
            feed.close()
            return self._measured(lambda: self._step(batches), lambda: None, seconds)
        finally:
            feed.close()

    def _measured(
        self, step: Callable[[], float], end: Callable[[], None], seconds: float
    ) -> tuple[float, float]:
        for _ in range(_WARM_UP):
            step()
        self._synchronize()
        steps, waited_s, begun_s = 0, 0.0, time.perf_counter()
        while (now_s := time.perf_counter()) < begun_s + seconds:
            waited_s += step()
            steps += 1
        end()
        self._synchronize()
        lasted_s = time.perf_counter() - begun_s
        return steps / lasted_s, waited_s / (now_s - begun_s)

    def _fed(self, feed: Feed) -> float:
        """A step as a learner role takes it; returns the seconds that it waited for its batch."""
        begun_s = time.perf_counter()
        if feed.due:
            feed.draw()
        waited_s = time.perf_counter() - begun_s
        for name, priorities in self._learner.step(feed.take()).priorities.items():
            feed.update(name, priorities)
        return waited_s

    def _step(self, batches: Mapping[str, Batch]) -> float:
        self._learner.step(batches)
        return 0.0

    def _synchronize(self) -> None:
        if self._config.learner.device.startswith("cuda"):
            torch.cuda.synchronize(self._config.learner.device)

    def close(self) -> None:
        self._client.close()


def _resident(batch: Batch, device: str) -> Batch:
    cuda = device.startswith("cuda")
    batch.views = {
        name: moved(view, torch.device(device)) if cuda else np.array(view)  # type: ignore[misc]
        for name, view in batch.views.items()
    }
    for name in ("keys", "probabilities", "length"):
        setattr(batch, name, np.array(getattr(batch, name)))
    return batch


@dataclass(frozen=True)
class Subject:
    """Where batches come from."""

    rows: str | None

    @property
    def name(self) -> str:
        return RESIDENT if self.rows is None else f"replay.rows = {self.rows}"


def require_steps(config: Config) -> TableSettings:
    """The algorithm's table. Raises ConfigError where it has several, or few anchors."""
    tables = make_algorithm(config, find_spaces(config.env)).tables()
    table = next(iter(tables.values()))
    if len(tables) > 1 or table.item.period > 1 or table.limiter.max_times_sampled:
        raise ConfigError(
            f"algo.name = {config.algo.name!r} has no replay with an item at every step",
            "measure dqn, btr or medqn",
        )
    return table


def measure_learner(
    course: Course,
    config: Config,
    rows: list[str],
    seconds: float,
    report: Callable[[str], None],
) -> Records[Record]:
    """A record of steps for each place of the rows, in turns; `more` has what they are of RESIDENT.

    When stopped, returns the results so far, marked as interrupted.
    """
    results = Results()
    net, size = config.net.name, config.replay.batch_size
    workload = f"{config.env.id}, {config.algo.name}, {net}, batch {size}, {config.learner.device}"
    subjects = [Subject(None), *map(Subject, rows)]
    waits: dict[str, dict[int, float]] = {}
    with (
        results.until_stopped(),
        served(course.stop, ["udp://127.0.0.1:0"], "adaptive") as (_, (address,)),
        Workers(course.stop) as workers,
    ):
        appender = workers.of("appender", partial(Appender, address, config))

        def turn(subject: Subject) -> None:
            try:
                learner = workers.of("learner", partial(Learner, address, config))
                rate, waited = learner.call(
                    "learn", subject.rows, seconds, deadline_s=_OPEN_S + seconds
                )
            except WorkerFailed:
                workers.end("learner")  # a late answer is not the next subject's
                raise
            results.keep(subject.name, "step", workload, [1e6 / rate])
            waits.setdefault(subject.name, {})[results.number] = waited

        with appender.doing("append", deadline_s=_NEWS_S):
            results.take_turns(course, subjects, turn)
    records = results.records("learner", ["step"])
    steps = {record.subject: record for record in records}
    shares = {}
    for name, record in steps.items():
        waited = float(np.median([*waits[name].values()]))
        line = f"{workload}: {name}: {record.per_second:,.1f} steps/s"
        ratio = over(steps[RESIDENT].of_rounds(), record.of_rounds()) if RESIDENT in steps else None
        if name != RESIDENT and ratio is not None:
            shares[name] = ratio.median
            line += f", {ratio.median:.1%} of {RESIDENT} ({ratio.low:.1%} to {ratio.high:.1%})"
            line += f", waits for batches {waited:.1%} of the time"
        report(line)
    more = results.derived(shares=shares, waits=waits)
    return Records(records, more, results.distance)
