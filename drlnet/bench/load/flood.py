"""A client's latency at one light load, alone and beside another client that floods the server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from drlnet.bench.engine import Course, Results
from drlnet.bench.load.generator import EDGES_US, Asked, Generator, Step
from drlnet.bench.load.suite import LIGHT, Loaded
from drlnet.bench.measure import Flood
from drlnet.bench.processes import Lasting, WorkerFailed, Workers, served
from drlnet.bench.transport.suite import Subject
from drlnet.errors import TransportError
from drlnet.plots import Axis, Figure, Line
from drlnet.plots.style import duration

ALONE = "alone"
PORTS = {"garbage": 256, "hellos": 256, "replays": 8}  # that each sends from
APPENDS = "appends"  # valid ones, as many as a session may have under way
KINDS = (ALONE, *PORTS, APPENDS)
CAPTION = (
    "One client offers a light load; beside it another process floods the server as fast as it "
    "can: with garbage or hellos from 256 ports, replays of an answered request, or appends. "
    "Where it has no core of its own, it takes of the client's what the client leaves. Latencies "
    "(us) run from the time at which a request was due. cpu us and switches: client and server, "
    "per request."
)
_AS_LONG = 4  # as a step of the search: the tail is what counts
_LOOK_S = 0.02
_MOST = 1e6  # appends a second: more than any server takes


class Flooder(Lasting):
    """The process that floods. Called from another process (Worker).

    It runs where a core has nothing else to do (SCHED_IDLE): it must not take the client's time,
    which one on another machine could not take either.
    """

    def open(self, address: str, kind: str, poll: str) -> None:
        """Opens its ports, and the sessions of those kinds that have some."""
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        self._kind = kind
        if kind == APPENDS:
            self._appends = Generator()
            self._appends.open(address, poll, Asked("append"), None, None)
        else:
            self._flood = Flood(address, kind, PORTS[kind])

    def flood(self) -> int:
        """Floods until it is asked for something else. Returns how many frames or appends."""
        sent = 0
        while not self.asked():
            if self._kind == APPENDS:
                step = self._appends.step(_MOST, _LOOK_S)
                sent += int(step.counts.sum())
            else:
                sent += self._flood.run(_LOOK_S)
        return sent


@dataclass
class Floods(Results):
    """What was measured: by subject and what was beside it."""

    steps: dict[tuple[Subject, Asked], dict[int, Step]] = field(default_factory=dict)

    def loaded(self) -> list[Loaded]:
        """By subject as they were first measured, then by kind."""
        subjects = list(dict.fromkeys(subject for subject, _ in self.steps))
        keys = sorted(
            self.steps, key=lambda key: (subjects.index(key[0]), KINDS.index(key[1].beside))
        )
        return [
            Loaded(subject.name, asked, LIGHT, self.steps[subject, asked],
                   subject.polling_threads + (asked.beside != ALONE) > self.cores.count)
            for subject, asked in keys
        ]  # fmt: skip


def measure_floods(
    course: Course, subjects: Sequence[Subject], asked: Asked, server: str | None = None
) -> Floods:
    """Offers the load of LIGHT, alone and beside each flood. server: as for measure_loads.

    When stopped, returns the results so far, marked as interrupted. Raises TransportError when no
    subject can be measured.
    """
    results = Floods()
    cores = results.cores

    def step_of(subject: Subject, kind: str, address: str, pid: int | None) -> Step:
        seconds = _AS_LONG * course.effort.budget_s
        load = workers.of("load", Generator, core=cores.client)
        try:
            load.call("open", address, subject.poll, asked, pid, cores.server)
            if kind == ALONE:
                step: Step = load.call("step", LIGHT, seconds)
            else:
                flooder = workers.of(kind, Flooder, core=cores.client if cores.count < 3 else None)
                flooder.call("open", address, kind, subject.poll)
                with flooder.doing("flood"):
                    step = load.call("step", LIGHT, seconds)
            load.call("shut")
        except WorkerFailed:
            workers.end("load")
            raise
        finally:
            workers.end(kind)
        return step

    def turn(subject: Subject) -> None:
        shift = (results.number - 1) % len(KINDS)
        for kind in (*KINDS[shift:], *KINDS[:shift]):
            if server is not None:
                step = step_of(subject, kind, server, None)
            else:
                with served(course.stop, [subject.listen], subject.poll, core=cores.server) as (
                    process,
                    (address, *_),
                ):
                    step = step_of(subject, kind, address, process.pid)
            of_kind = results.steps.setdefault((subject, replace(asked, beside=kind)), {})
            of_kind[results.number] = step

    with results.until_stopped(), Workers(course.stop) as workers:
        results.take_turns(course, subjects, turn)
    if not results.steps and not results.interrupted:
        cause = next(iter(results.unavailable.values()))
        raise TransportError(f"no transport can be measured: {cause}", "name others")
    return results


def plot(loaded: Sequence[Loaded]) -> Figure:
    """Which share of requests took longer, a panel per subject and a line per flood."""
    subjects = list(dict.fromkeys(one.subject for one in loaded))
    figure = Figure("Latency beside floods", panels=subjects, share_y=True)
    for subject in subjects:
        lines = {}
        for one in loaded:
            if one.subject == subject:
                counts = np.sum([step.counts for step in one.steps.values()], axis=0)
                longer = 1 - np.cumsum(counts) / counts.sum()
                shown = (longer > 0) & (longer < 1)
                lines[one.asked.beside] = Line(EDGES_US[1:][shown].tolist(), longer[shown].tolist())
        x = Axis("latency", log=10, words=duration)
        figure.lines(subject, lines, x=x, y=Axis("share that took longer", log=10))
    return figure
