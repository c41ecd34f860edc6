"""Groups of processes that measure, each a server, its actors and its learner, all in turns; and
the paper's three comparisons of what they found, as tables and as bars.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import TextIO

from drlnet.bench import show as tables
from drlnet.bench.engine import Course, Effort, Results
from drlnet.bench.machine import Cores
from drlnet.bench.paper.counted import Counted
from drlnet.bench.paper.roles import (
    BASE,
    BATCH,
    BATCHES,
    CYCLE,
    FETCH,
    PING,
    SINCE_DUE,
    STORE,
    Actor,
    Appends,
    Group,
    Layout,
    Learner,
    Phase,
    operations,
)
from drlnet.bench.processes import Worker, served
from drlnet.bench.records import Key, Record, key_of, lower_than
from drlnet.launch.process import DRLNET
from drlnet.launch.signals import Stop
from drlnet.plots import Axis, Bar, Figure
from drlnet.plots.style import duration

SUITE = "paper"
OPS = (PING, STORE, SINCE_DUE, FETCH, BATCH, CYCLE)
# All but pings spend the time and not the calls: actors append a few times meanwhile.
FULL = Effort(calls=20_000, budget_s=0.25, warm_up=50)
QUICK = Effort(calls=20_000, budget_s=0.12, warm_up=20)
SLICE_S = 0.04  # of a cell, at most: seconds before a host moves cores, longer than 17 MB take


@dataclass
class Heard:
    """What a group measured."""

    phases: list[Phase] = field(default_factory=list)
    appends: list[Appends] = field(default_factory=list)


@dataclass(frozen=True)
class Places:
    """Where the roles run: programs (inside namespaces) and cores."""

    cores: Cores = field(default_factory=Cores.usable)
    server: Sequence[str] = DRLNET
    actor: Sequence[str] = DRLNET
    learner: Sequence[str] = DRLNET

    def listens(self, group: Group) -> list[str]:
        """What the server listens on, or the learner that holds the replay."""
        return [group.transport.listen]

    def reached(self, group: Group, ready: str, actor: int | None) -> str:
        """What an actor types to reach it, or the learner (None). ready: as it said itself."""
        return ready

    def actor_core(self, group: Group, index: int) -> int | None:
        """Beside the learner where there are two cores, else on those that are left."""
        if self.cores.client is None or self.cores.count < 3:
            return self.cores.client
        return self.cores.client + 1 + index % (self.cores.count - 2)


def run_group(course: Course, group: Group, places: Places, heard: Heard, *, turn: int = 0) -> None:
    """Runs it to its end. What was measured before an error stays in `heard`.

    Raises what a role died of, Stopped.
    """
    stop, effort = course.stop, course.effort
    with _connected(stop, group, places) as (learner, actors), ExitStack() as acting:
        found = [acting.enter_context(actor.doing("act")) for actor in actors]
        # The cells of batches take turns in slices, which share their time.
        slices = max(1, round(effort.budget_s / SLICE_S)) if group.place == "network" else 1
        part = replace(effort, budget_s=effort.budget_s / slices)
        for op, layout, batch in operations(group, turn, slices=slices):
            if op == STORE:  # the learner rests: the actors are measured
                before, start_s = learner.call("counted"), time.monotonic()
                stop.wait(effort.budget_s)
                end_s, passed = time.monotonic(), learner.call("counted") - before
                heard.phases.append(Phase(op, layout, batch, start_s, end_s, [], passed))
            else:
                phase = learner.measure(op, layout, batch, part if batch else effort)
                heard.phases.append(phase)
        acting.close()
        heard.appends += [chunk for (chunks,) in found for chunk in chunks]


@contextmanager
def _connected(stop: Stop, group: Group, places: Places) -> Iterator[tuple[Worker, list[Worker]]]:
    """(learner, actors), ready to be measured."""
    poll, workload, cores = group.transport.poll, group.workload, places.cores
    make, address = partial(Learner, poll, workload.shape), ""
    with ExitStack() as servers, ExitStack() as roles:  # roles end before their server does
        # All start at once, since most of that is imports.
        learner = roles.enter_context(Worker(stop, make, program=places.learner, core=cores.client))
        actors = [
            roles.enter_context(
                Worker(stop, Actor, program=places.actor, core=places.actor_core(group, index))
            )
            for index in range(workload.actors)
        ]
        if group.place != "learner":
            listen = places.listens(group)
            _, (address, *_) = servers.enter_context(
                served(stop, listen, poll, core=cores.server, program=places.server, insecure=True)
            )
            reached = places.reached(group, address, None)
            learner.call("open", reached, group.place, workload.rate > 0)
        else:
            address = learner.call("serve", places.listens(group)[0], cores.server)
        for index, actor in enumerate(actors):
            reached = places.reached(group, address, index)
            actor.call("open", reached, poll, workload.shape, workload.rate)
        yield learner, actors


@dataclass
class PaperResults(Results):
    """The same, with what passed the servers meanwhile, over all rounds."""

    passed: dict[Key, Counted] = field(default_factory=dict)


def keep(results: PaperResults, group: Group, heard: Heard) -> None:
    """The group's round, as far as it went. A subject is a layout over a transport."""
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    polling: dict[tuple[str, str, str], int] = {}
    for phase in heard.phases:
        workload = group.workload.with_batch(phase.batch)
        subject = f"{phase.layout.value}, {group.transport.name}"
        key = subject, phase.op, workload
        results.passed[key] = results.passed.get(key, Counted()) + phase.counted
        latencies = {phase.op: phase.us}
        if phase.op == BATCH or phase.layout == Layout.MEMORY:
            begun = during(heard.appends, phase)
            latencies[STORE] = [us for one in begun for us in one.us]
            latencies[SINCE_DUE] = [us for one in begun for us in one.since_due_us]
        # While the learner rests it does not poll.
        threads = max(0, group.polling_threads - (phase.op == STORE))
        for op, us in latencies.items():
            found[subject, op, workload] += us
            polling[subject, op, workload] = threads
    for key, us in found.items():
        results.keep(*key, us, threads=polling[key])


def records_of(results: Results) -> list[Record]:
    """In the order of the tables: one layout below the other, by transport."""
    return results.records(SUITE, OPS, subjects=lambda subject: subject.split(", ")[::-1])


def during(appends: Sequence[Appends], phase: Phase) -> list[Appends]:
    """Those that were begun within the phase.

    However long they took, or short phases would have only short ones.
    """
    return [one for one in appends if phase.start_s <= one.start_s <= phase.end_s]


def measure_paper(
    course: Course, groups: Sequence[Group], places: Places | None = None
) -> PaperResults:
    """Measures all groups, a round at a time.

    When stopped, what was measured until then is returned, marked as interrupted.
    """
    places = places or Places()
    results = PaperResults(cores=places.cores)

    def turn(group: Group) -> None:
        heard = Heard()
        try:
            run_group(course, group, places, heard, turn=results.number)
        finally:
            keep(results, group, heard)

    with results.until_stopped():
        results.take_turns(course, groups, turn)
    return results


@dataclass(frozen=True)
class Comparison:
    """Furukawa and Matsutani, arXiv 2110.13506: by how much the paper found latencies lower."""

    number: int
    title: str
    low: float
    high: float


COMPARISONS = (
    Comparison(1, "kernel bypass: access to a shared memory server", 0.327, 0.589),
    Comparison(2, "in-network replay: access to the replay memory", 0.117, 0.281),
    Comparison(3, "prioritized sampling: a batch and its priority update", 0.219, 0.291),
)


@dataclass(frozen=True)
class Reduction:
    """The share of a baseline's p50 in the same round by which ours is lower, negative where it is
    higher: the rounds' median, least and most. than: the baseline's subject.
    """

    comparison: int
    subject: str
    op: str
    workload: str
    than: str
    share: float
    low: float
    high: float


def comparison_of(record: Record) -> int:
    """Its number; 0 for pings, which stand beside all."""
    if not record.subject.startswith(Layout.MEMORY.value):
        return 3 if record.op == CYCLE else 2
    return 0 if record.op == PING else 1


_AGAINST = {
    Layout.NETWORK.value: (Layout.STORE, Layout.LEARNER),
    Layout.MIRROR.value: (Layout.STORE, Layout.NETWORK),
}


def reductions(records: Sequence[Record], block: str, busy: str) -> list[Reduction]:
    """Comparison 1: every transport against kernel UDP, asleep and polled. 2 and 3: (c) against
    (b) and (a) over the same transport, (d) against (b) and (c)."""
    measured = {key_of(record): record for record in records}
    found = []
    for record in records:
        number = comparison_of(record)
        layout, _, transport = record.subject.partition(", ")
        baselines: list[str] = []
        if number == 1 and transport != block:
            baselines = [f"{layout}, {name}" for name in (block, busy) if name != transport]
        elif layout in _AGAINST:
            baselines = [f"{one.value}, {transport}" for one in _AGAINST[layout]]
        for than in baselines:
            baseline = measured.get((than, record.op, record.workload))
            share = lower_than(record.of_rounds(), baseline.of_rounds()) if baseline else None
            if share is not None:
                found.append(Reduction(number, *key_of(record), than, *astuple(share)))
    return found


def show(
    records: Sequence[Record],
    reductions: Sequence[Reduction],
    *,
    file: TextIO,
    network: bool = False,
) -> None:
    """Prints a table for each comparison: in colour on a terminal, plain elsewhere.

    network: the links are interfaces, not shared memory and loopback.
    """
    for comparison in COMPARISONS:
        chosen = [one for one in records if comparison_of(one) == comparison.number]
        named = {key_of(record): _named(record, comparison.number) for record in chosen}
        words: dict[str, dict[Key, str]] = {}
        for one in reductions:
            if one.comparison == comparison.number:
                shown = key_of(named[key_of(one)])
                words.setdefault(_heading(one), {})[shown] = f"{-100 * one.share:+.0f}%"
        if chosen:
            title = f"\nComparison {comparison.number}: {comparison.title}"
            tables.console_on(file).print(title, style="bold")
        relative = {heading: tables.column(of) for heading, of in words.items()}
        columns, lines = (
            {"of rounds": _of_rounds, **relative},
            [caption(comparison, network=network)],
        )
        without = ("p99.9 us", "GB/s")
        tables.show([*named.values()], columns, lines, file=file, without=without)


def _heading(one: Reduction) -> str:
    """The column of what it is relative to: a way to poll, or a layout's letter."""
    layout, _, transport = one.than.partition(", ")
    return f"than {transport.split()[-1] if one.comparison == 1 else layout.split()[0]}"


def _named(record: Record, comparison: int) -> Record:
    """The record as a table shows it: its subject is what is compared, the rest stands above."""
    layout, _, transport = record.subject.partition(", ")
    if comparison == 1:
        return replace(record, subject=transport)
    return replace(record, subject=layout, op=f"{transport}: {record.op}")


def _of_rounds(record: Record) -> str:
    return f"{tables.figure(record.p50_low_us or 0)}-{tables.figure(record.p50_high_us or 0)}"


def caption(comparison: Comparison, *, network: bool = False) -> str:
    """What a reader has to know beside the figures."""
    low, high = 100 * comparison.low, 100 * comparison.high
    since_due = (
        "Since due: from when an actor's schedule has an append due, its own waking up included; "
        "a late append puts off none behind it."
    )
    what = {
        1: '"Than block" and "than busy": than kernel UDP whose server and client sleep, and spin, '
        "until something arrives. Store: an actor's append of one step, acknowledged, the learner "
        f"at rest; fetch: the learner's read of one item by its key. No sampling. {since_due}",
        2: "Store: an actor's append while the learner samples; batch: the learner's prioritized "
        f"batch, no update. {since_due}",
        3: "The learner's wait for a prioritized batch and for its priority update.",
    }[comparison.number]
    if comparison.number > 1:
        what = (
            '"Than (b)", "than (a)", "than (c)": relative to that layout over the same transport. '
            "(a) is the learner's own memory, beside a server thread on another core; (b) reads "
            "new priorities, draws for itself, reads items, writes back; (c) asks (b)'s server; "
            "(d) asks one for keys, and has the rows already, each of which came once. "
            f"{what}"
        )
    link = (
        "All links are pairs of interfaces through the server's host."
        if network
        else "All processes share one machine: dpdk links are shared memory, udp is loopback; "
        "neither is a network."
    )
    return (
        f"{what} Shares: of p50 in the same round, median over the rounds; -50% is half. The paper "
        f"(arXiv 2110.13506, on its own 40 GbE cluster): {low:.1f}% to {high:.1f}%. {link} Of "
        "rounds: the least and most of the rounds' medians."
    )


def plot(records: Sequence[Record]) -> Figure:
    """A panel per transport, a row per operation and workload, a colour per layout."""
    shown = [record for record in records if comparison_of(record)]
    rows = dict.fromkeys(_row(record) for record in sorted(shown, key=comparison_of))
    panels: dict[str, dict[str, dict[str, Bar]]] = {}
    for record in shown:
        layout, _, transport = record.subject.partition(", ")
        cells = panels.setdefault(transport.replace(" ", "\n"), {row: {} for row in rows})
        behind = "*" if record.oversubscribed else ""
        cells[_row(record)][layout] = Bar(record.p50_us, high=record.p99_us, behind=behind)
    crowded = any(record.oversubscribed for record in shown)
    hollow = "; hollow: too few cores for its threads" if crowded else ""
    title = f"Access to the replay, p50 (point) to p99 (line){hollow}"
    figure = Figure(title, panels=[*panels] or [""], share_y=True)
    ends = [us for record in shown for us in (record.p50_us, record.p99_us)]
    axis = Axis(log=10, low=min(ends, default=1) / 2, high=max(ends, default=1) * 2, words=_third)
    for panel, cells in panels.items():
        figure.points(panel, cells, axis=axis)
    return figure


def _third(us: float) -> str:
    """A tick's label at 1 us, 1 ms and 1 s: in a narrow panel there is room for these."""
    return duration(us) if round(math.log10(us)) % 3 == 0 else ""


def _row(record: Record) -> str:
    """The operation, and what its workload has otherwise than the base case."""
    base, own = (words.replace(" at ", ", at ").split(", ")
                 for words in (BASE.with_batch(BATCHES[0]), record.workload))  # fmt: skip
    varied = [part for part in own if part not in base]
    return f"{comparison_of(record)}. {record.op}: {', '.join(varied) or 'base case'}"
