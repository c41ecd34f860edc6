"""One server, a learner and ever more actors, until something is at its limit, which is named."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TextIO

import numpy as np

from drlnet.bench import show as tables
from drlnet.bench.actors.crowd import BUSY, RESIDENT, STORED, Acted, Actors, Asked, Learner
from drlnet.bench.engine import Course, Results
from drlnet.bench.processes import Worker, Workers, served
from drlnet.bench.records import Record, Round
from drlnet.bench.transport.suite import Subject
from drlnet.errors import TransportError
from drlnet.plots import Axis, Figure, Line
from drlnet.plots.style import duration

SUITE = "actors"
_ACHIEVED = 0.95  # of the offered load, at least: else a limit is reached
_FULL = 0.9  # share of a core, from which on it is what limits
_OPEN_S = 600.0  # of thousands of sessions, one after the other
_PATIENCE = 10  # times what a run takes, and a minute
_CAPTION = (
    "An open loop: each actor's appends are due at its own times, and p50 and p99 (us) run from "
    "then. Cycle: p50 and p99 (us) of the learner's batch and update meanwhile. KiB: by which the "
    "server's resident memory grew for each actor. Slowest: of the actors, over the median one: "
    "the rate, and the median latency. Cores: how much of one server and actors take."
)


@dataclass(frozen=True)
class Held:
    """One number of actors, in one round.

    figures: per_second, appends acknowledged in time, and steps_per_second; p50_us, p99_us, mean_us
    of appends and cycle_p50_us, cycle_p99_us, cycles_per_second of the learner; client_bytes, of
    the server's memory; slowest_rate and slowest_latency, over the median actor's; server_share and
    actors_share, of a core, and for which share of the time the actors were ready and had none
    (actors_delayed); late_us, how long after it was due the median append left; acknowledged_rows,
    and stored_rows by the server's count, which are as many.
    """

    figures: dict[str, float]
    got: float  # share of the offered load

    def limit(self) -> str:
        """What keeps the actors from their rate; nothing where they keep it."""
        if self.got >= _ACHIEVED:
            return ""
        of = self.figures
        full = []
        if of["server_share"] >= _FULL:
            full.append(f"the server's core is busy for {of['server_share']:.0%} of the time")
        if of["actors_share"] + of["actors_delayed"] >= _FULL:
            full.append(
                f"the process of the actors runs for {of['actors_share']:.0%} of the time and "
                f"waits for its core for {of['actors_delayed']:.0%}"
            )
        shares = f"server {of['server_share']:.0%}, actors {of['actors_share']:.0%}"
        return " and ".join(full) or f"the machine or the network: no core is full ({shares})"


@dataclass(frozen=True)
class Crowded:
    """One number of actors over one transport, in every round."""

    subject: str
    asked: Asked
    actors: int
    rounds: dict[int, Held]
    oversubscribed: bool

    def figure(self, name: str) -> float:
        """The rounds' median."""
        return median(held.figures[name] for held in self.rounds.values())

    @property
    def got(self) -> float:
        """The share of the offered load that was answered in time, the rounds' median."""
        return median(held.got for held in self.rounds.values())

    @property
    def limit(self) -> str:
        """What the last round that was limited ran into."""
        return next(filter(None, (held.limit() for held in reversed(self.rounds.values()))), "")

    def to_dict(self) -> dict[str, Any]:
        """Medians over the rounds."""
        return {
            "suite": SUITE,
            "subject": self.subject,
            "workload": f"{self.actors} actors, {self.asked.words}",
            "op": "append",
            "actors": self.actors,
            **{name: self.figure(name) for name in next(iter(self.rounds.values())).figures},
            "got": self.got,
            "limit": self.limit,
            "rounds": len(self.rounds),
            "oversubscribed": self.oversubscribed,
            "by_round": [
                Round(number, *(held.figures[name] for name in ("p50_us", "p99_us", "mean_us")))
                for number, held in self.rounds.items()
            ],
        }


@dataclass
class Crowds(Results):
    """What was measured. limits: by subject, which one ended the search, in the last round."""

    held: dict[tuple[Subject, int], dict[int, Held]] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)

    def crowded(self, asked: Asked) -> list[Crowded]:
        """By subject, then by the number of actors, as they were measured."""
        return [
            Crowded(subject.name, asked, actors, rounds,
                    subject.polling_threads + 2 > self.cores.count)
            for (subject, actors), rounds in self.held.items()
        ]  # fmt: skip


def held_of(
    acted: Acted, cycles_us: np.ndarray[Any, Any], asked: Asked, seconds: float,
    server: dict[str, float],
) -> Held:  # fmt: skip
    """The figures of one run. server: those that the server's own figures tell."""
    actors, appends = acted.latencies_us.shape
    planned_s = appends * asked.rows / asked.steps_per_second
    rate = acted.in_time / max(acted.elapsed_s, planned_s)
    # Each actor's counts from when its first append was due to its last one's answer.
    due_s = planned_s * (appends - 1) / appends
    rates = 1 / (due_s + acted.latencies_us[:, -1] / 1e6)
    latencies = np.median(acted.latencies_us, axis=1)
    every, cycles = acted.latencies_us, cycles_us if len(cycles_us) else np.full(1, np.nan)
    figures = {
        "per_second": rate,
        "steps_per_second": rate * asked.rows,
        "p50_us": float(np.percentile(every, 50)),
        "p99_us": float(np.percentile(every, 99)),
        "mean_us": float(every.mean()),
        "cycle_p50_us": float(np.percentile(cycles, 50)),
        "cycle_p99_us": float(np.percentile(cycles, 99)),
        "cycles_per_second": len(cycles_us) / seconds,
        "slowest_rate": float(rates.min() / np.median(rates)),
        "slowest_latency": float(latencies.max() / np.median(latencies)),
        "actors_share": acted.cpu_share,
        "actors_delayed": acted.delayed_share,
        "late_us": acted.late_us,
        **server,
    }
    return Held(figures, figures["steps_per_second"] / (actors * asked.steps_per_second))


def measure_crowds(
    course: Course,
    subject: Subject,
    asked: Asked,
    actors: int,
    *,
    double: bool,
    server: str | None = None,
) -> Crowds:
    """Holds that many actors, and twice as many again and again until a limit is reached.

    server: one that runs already, elsewhere maybe. When stopped, returns the results so far, marked
    as interrupted. Raises TransportError when nothing can be measured.
    """
    results = Crowds()
    cores = results.cores

    def turn(subject: Subject) -> None:
        with ExitStack() as stack:
            address = server
            if address is None:
                _, (address, *_) = stack.enter_context(
                    served(course.stop, [subject.listen], subject.poll, core=cores.server)
                )
            workers = stack.enter_context(Workers(course.stop))
            for name, make in (("learner", Learner), ("actors", Actors)):
                worker = workers.of(name, make, core=cores.client)
                worker.call("open", address, subject.poll, asked, deadline_s=_OPEN_S)
            learner, crowd = workers.of("learner", Learner), workers.of("actors", Actors)
            learner.call("learn", course.effort.budget_s / 10)  # memory for batches is there
            before, number = learner.call("server"), actors
            while True:
                limit = crowd.call("grow", number, deadline_s=_OPEN_S)
                if not limit:
                    held = _hold(learner, crowd, asked, number, course.effort.budget_s, before)
                    results.held.setdefault((subject, number), {})[results.number] = held
                    limit = held.limit()
                if limit or not double:
                    break
                number *= 2
            if limit:
                results.limits[subject.name] = f"{number} actors: {limit}"

    with results.until_stopped():
        results.take_turns(course, [subject], turn)
    if not results.held and not results.interrupted:
        cause = next(iter([*results.unavailable.values(), *results.limits.values()]))
        raise TransportError(f"no actors can be held: {cause}", "ask for fewer, or see above")
    return results


def _hold(
    learner: Worker,
    crowd: Worker,
    asked: Asked,
    actors: int,
    seconds: float,
    before: dict[str, float],
) -> Held:
    """One run: actors and learner beside each other. before: the server, without actors."""
    idle, since_s = learner.call("server"), time.monotonic()
    learner.begin("learn", seconds)
    acted: Acted = crowd.call("act", actors, seconds, deadline_s=_PATIENCE * seconds + 60)
    cycles_us = learner.answer(_PATIENCE * seconds + 60)
    after, lasted_s = learner.call("server"), time.monotonic() - since_s
    server = {
        "client_bytes": (after[RESIDENT] - before[RESIDENT]) / actors,
        "acknowledged_rows": acted.rows,
        "stored_rows": after[STORED] - idle[STORED],
        "server_share": (after[BUSY] - idle[BUSY]) / lasted_s,
    }
    return held_of(acted, cycles_us, asked, seconds, server)


def show(crowded: Sequence[Crowded], limits: Mapping[str, str], *, file: TextIO) -> None:
    """Prints it, in colour on a terminal, plain elsewhere; nothing of nothing."""
    rows = {
        Record("", f"{one.actors}", one.asked.words, f"{one.subject}: appends, by actors",
               0, 0, 0, 0, oversubscribed=one.oversubscribed): one
        for one in crowded
    }  # fmt: skip

    def of(words: str, *names: str, scale: float = 1) -> Callable[[Record], str]:
        return lambda row: "/".join(format(rows[row].figure(name) / scale, words) for name in names)

    columns = {
        "got": lambda row: f"{rows[row].got:.0%}",
        "steps/s": of(",.0f", "steps_per_second"),
        "p50/p99": of(".0f", "p50_us", "p99_us"),
        "cycle": of(".0f", "cycle_p50_us", "cycle_p99_us"),
        "KiB": of(".0f", "client_bytes", scale=1024),
        "slowest": of(".2f", "slowest_rate", "slowest_latency"),
        "cores": of(".2f", "server_share", "actors_share"),
    }
    found = [f"{subject}: the limit is reached at {limit}." for subject, limit in limits.items()]
    tables.show([*rows], columns, [*found, _CAPTION], file=file, without=[*tables.TIMES])


def plot(crowded: Sequence[Crowded]) -> Figure:
    """A line per transport: the tail of appends and of the learner's cycles over actors."""
    what = f": {crowded[0].asked.words}" if crowded else ""
    panels = {"append p99": "p99_us", "cycle p99": "cycle_p99_us"}
    figure = Figure(f"Latency over actors{what}", panels=[*panels])
    for panel, name in panels.items():
        lines = {}
        for subject in dict.fromkeys(one.subject for one in crowded):
            own = [one for one in crowded if one.subject == subject]
            lines[subject] = Line([one.actors for one in own], [one.figure(name) for one in own])
        figure.lines(panel, lines, x=Axis("actors", log=2), y=Axis(log=10, words=duration))
    return figure
