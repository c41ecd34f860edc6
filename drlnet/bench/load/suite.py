"""Every transport in turn, load by load: doubled until it is too much, then bisected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any, TextIO

import numpy as np

from drlnet.bench import show as tables
from drlnet.bench.engine import Course, Results
from drlnet.bench.load.generator import EDGES_US, MEMORY, Asked, Generator, Step
from drlnet.bench.processes import WorkerFailed, Workers, served
from drlnet.bench.records import OfRounds, Record, Round
from drlnet.bench.transport.suite import Subject
from drlnet.errors import TransportError
from drlnet.plots import Axis, Figure, Line
from drlnet.plots.style import duration

SUITE = "load"
LIGHT = 1000.0  # requests per second, where the search begins
_ACHIEVED = 0.95  # of the offered load, at least
_P99_GROWTH = 10.0  # over that of the light load, at most
_MOST = LIGHT * 2**13
_BISECTIONS = 4  # so that the knee is known to 5%
_CAPTION = (
    "An open loop: requests are due at random times of the offered rate, and latencies (us) run "
    "from then, whatever became of those before. CPU us and context switches: per request, client "
    "and server; a side that polls takes its core whole. The knee: the most of which "
    f"{_ACHIEVED:.0%} was answered in time, with a p99 of at most {_P99_GROWTH:g} times that of "
    "the light load."
)


@dataclass(frozen=True)
class Loaded:
    """One load over one transport, in every round."""

    subject: str
    asked: Asked
    offered: float
    steps: dict[int, Step]  # by the number of the round
    oversubscribed: bool

    def figure(self, name: str) -> float | None:
        """The rounds' median, of one of Step.figures."""
        found = [step.figures[name] for step in self.steps.values() if name in step.figures]
        return median(found) if found else None

    def to_dict(self) -> dict[str, Any]:
        """Medians over the rounds; the histogram is of all of them."""
        names = next(iter(self.steps.values())).figures
        return {
            "suite": SUITE,
            "subject": self.subject,
            "workload": ", ".join(
                [self.asked.words, f"{self.offered:,.0f}/s", *filter(None, [self.asked.beside])]
            ),
            "op": self.asked.op,
            "offered_per_second": self.offered,
            **{name: self.figure(name) for name in names},
            "rounds": len(self.steps),
            "oversubscribed": self.oversubscribed,
            "by_round": [
                Round(number, *(step.figures[name] for name in ("p50_us", "p99_us", "mean_us")))
                for number, step in self.steps.items()
            ],
            "histogram": self._histogram(),
        }

    def _histogram(self) -> dict[str, list[Any]]:
        """Counts between edges, from the first bucket that has any to the last."""
        counts = np.sum([step.counts for step in self.steps.values()], axis=0)
        filled = np.nonzero(counts)[0]
        first, end = filled[0], filled[-1] + 1
        edges = [float(f"{edge:.4g}") for edge in EDGES_US[first : end + 1]]
        return {"edges_us": edges, "counts": counts[first:end].tolist()}


@dataclass
class Loads(Results):
    """What was measured. knees: of each subject, the greatest load of each round."""

    steps: dict[tuple[Subject, float], dict[int, Step]] = field(default_factory=dict)
    knees: dict[str, list[float]] = field(default_factory=dict)

    def loaded(self, asked: Asked) -> list[Loaded]:
        """By subject as they were first measured, then by load."""
        subjects = list(dict.fromkeys(subject for subject, _ in self.steps))
        return [
            Loaded(subject.name, asked, offered, self.steps[subject, offered],
                   subject.polling_threads > self.cores.count)
            for subject, offered in sorted(
                self.steps, key=lambda key: (subjects.index(key[0]), key[1])
            )
        ]  # fmt: skip

    def knees_of_rounds(self) -> dict[str, OfRounds]:
        """Median, least and most of the rounds."""
        return {
            subject: OfRounds(median(found), min(found), max(found))
            for subject, found in self.knees.items()
        }


def search(offer: Callable[[float], Step], keep: Callable[[Step], object]) -> float:
    """The greatest load that is answered in time; keep(step) for each load that was offered.

    What was too much is offered once more, and the better of the two counts: a machine that halted
    us for a while is not a knee.
    """

    def keeps_up(step: Step) -> bool:
        return step.figures["per_second"] >= _ACHIEVED * step.offered

    def fits(per_second: float) -> bool:
        tries = 2
        while tries > 0:
            step = offer(per_second)
            found = keeps_up(step) and step.figures["p99_us"] <= most_us
            tries = 0 if found else tries - 1
        keep(step)
        return found

    light = offer(LIGHT)
    while not keeps_up(light) and light.offered > 1:
        light = offer(light.offered / 2)
    keep(light)
    most_us = _P99_GROWTH * light.figures["p99_us"]
    good = light.offered
    while good < _MOST and fits(2 * good):
        good *= 2
    bad = 2 * good
    for _ in range(_BISECTIONS if good < _MOST else 0):
        middle = (good * bad) ** 0.5
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def measure_loads(
    course: Course, subjects: Sequence[Subject], asked: Asked, server: str | None = None
) -> Loads:
    """Searches the knee of each subject in turn. server: one that runs already, elsewhere maybe.

    When stopped, returns the results so far, marked as interrupted. Raises TransportError when no
    subject can be measured.
    """
    results = Loads()
    cores = results.cores

    def turn(subject: Subject) -> None:
        with ExitStack() as stack:
            pid, address = None, server or MEMORY
            if server is None and subject.listen != MEMORY:
                process, (address, *_) = stack.enter_context(
                    served(course.stop, [subject.listen], subject.poll, core=cores.server)
                )
                pid = process.pid
            load = clients.of("load", Generator, core=cores.client)

            def offer(per_second: float) -> Step:
                step: Step = load.call("step", per_second, course.effort.budget_s)
                return step

            def keep(step: Step) -> None:
                rounds = results.steps.setdefault((subject, step.offered), {})
                rounds[results.number] = step

            try:
                load.call("open", address, subject.poll, asked, pid, cores.server)
                results.knees.setdefault(subject.name, []).append(search(offer, keep))
                load.call("shut")
            except WorkerFailed:
                clients.end("load")
                raise

    with results.until_stopped(), Workers(course.stop) as clients:
        results.take_turns(course, subjects, turn)
    if not results.steps and not results.interrupted:
        cause = next(iter(results.unavailable.values()))
        raise TransportError(f"no transport can be measured: {cause}", "name others")
    return results


def show(
    loaded: Sequence[Loaded],
    knees: Mapping[str, OfRounds],
    *,
    file: TextIO,
    caption: str = _CAPTION,
) -> None:
    """Prints it, in colour on a terminal, plain elsewhere; nothing of nothing."""
    rows = {
        Record("", one.asked.beside or f"{one.offered:,.0f}/s", one.asked.words,
               f"{one.subject}: {one.asked.op}", 0, 0, 0, 0,
               oversubscribed=one.oversubscribed): one
        for one in loaded
    }  # fmt: skip

    def of(name: str) -> Callable[[Record], str]:
        return lambda row: _words(rows[row].figure(name))

    def both(name: str) -> Callable[[Record], str]:
        client, server = of(f"client_{name}"), of(f"server_{name}")
        return lambda row: f"{client(row)}/{server(row)}"

    def got(row: Record) -> str:
        return f"{(rows[row].figure('per_second') or 0) / rows[row].offered:.0%}"

    columns: dict[str, Callable[[Record], str]] = {"got": got}
    columns |= {name: of(f"{name.replace('.', '')}_us") for name in ("p50", "p90", "p99", "p99.9")}
    columns |= {"cpu us": both("cpu_us"), "switches": both("switches")}
    found = [
        f"{subject}: the knee is at {knee.median:,.0f}/s "
        f"(rounds: {knee.low:,.0f} to {knee.high:,.0f})."
        for subject, knee in knees.items()
    ]
    tables.show([*rows], columns, [*found, caption], file=file, without=[*tables.TIMES])


def _words(value: float | None) -> str:
    """12.3, 123; a dash where it could not be measured."""
    return "-" if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def plot(loaded: Sequence[Loaded]) -> Figure:
    """A line per transport; the tail beside the median."""
    what = f": {loaded[0].asked.op}, {loaded[0].asked.words}" if loaded else ""
    panels = {"p50": "p50_us", "p99": "p99_us"}
    figure = Figure(f"Latency over offered load{what}", panels=[*panels], share_y=True)
    for panel, name in panels.items():
        lines = {}
        for subject in dict.fromkeys(one.subject for one in loaded):
            own = [one for one in loaded if one.subject == subject]
            latencies = [one.figure(name) or 0 for one in own]
            lines[subject] = Line([one.offered for one in own], latencies)
        x = Axis("offered requests per second", log=10)
        figure.lines(panel, lines, x=x, y=Axis(log=10, words=duration))
    return figure
