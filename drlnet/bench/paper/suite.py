"""All groups in turns, round by round, and what they measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from drlnet.bench.engine import Effort, Note
from drlnet.bench.engine import Results as Rounds
from drlnet.bench.machine import Cores
from drlnet.bench.paper.groups import (
    FloorSlice,
    Group,
    Heard,
    Places,
    Rates,
    length_for,
    run_group,
)
from drlnet.bench.paper.roles import (
    BATCH,
    CYCLE,
    FETCH,
    FLOOR,
    PING,
    STORE,
    TRAIN,
    Appends,
    Phase,
    layout_of,
)
from drlnet.bench.paper.workloads import (
    ALONE,
    BASE,
    BATCHES,
    SHAPES,
    Layout,
    Workload,
    variations,
)
from drlnet.bench.records import Record
from drlnet.bench.transport.subjects import BASELINE, Poll, Subject
from drlnet.launch.signals import Stop

SUITE = "paper"
TRAINED = "training step"
_KEY_BYTES = 12  # of an update: a key and a priority
# So many calls that all but pings take the time: actors append a few times meanwhile.
FULL = Effort(calls=20_000, budget_s=0.25, warm_up=50)
QUICK = Effort(calls=20_000, budget_s=0.12, warm_up=20)


def groups_of(transports: Sequence[Subject], *, quick: bool) -> list[Group]:
    """Which groups compare what. transports: kernel UDP blocking and polled, then devices.

    Every transport gets the base case (in quick, (a) only where it has more); the first device and
    blocking kernel UDP (without a device polled kernel UDP) get the other workloads, too.
    """
    bases = [*transports[:1], *(transports[2:3] or transports[1:2])]
    found = [Group("network", transport, ALONE, ()) for transport in transports]
    # What is compared stands side by side, (a) behind the (b) and (c) of its transport: seconds
    # apart, the host has seldom moved the cores in between.
    for workload in variations(quick=quick):
        for transport in transports:
            for place in ("network", "learner"):
                base = workload == BASE and not (quick and place == "learner")
                if base or transport in bases:
                    batches = BATCHES if _both_batches(workload) else BATCHES[:1]
                    found.append(Group(place, transport, workload, batches))
    for transport in bases[:1] if quick else bases:
        trained = Group("network", transport, BASE, BATCHES[:1], training=True)
        found += [trained, replace(trained, place="learner")]
        if transport.poll != "busy":  # two that spin on one core would only take turns
            found.append(replace(trained, place="learner", crowded=True))
    return found


def _both_batches(workload: Workload) -> bool:
    """Where round trips dominate, the small batch is what shows it."""
    return workload in {BASE, replace(BASE, shape="cartpole")}


def transports_of(subjects: Sequence[Subject]) -> list[Subject]:
    """Kernel UDP blocking and polled, then polled devices, the best local one first."""
    polls: list[Poll] = ["block", "busy"]
    kernel = {subject.poll: subject for subject in subjects if subject.name.startswith(BASELINE)}
    devices = [subject for subject in subjects if not subject.name.startswith(BASELINE)]
    return [*(kernel[poll] for poll in polls if poll in kernel), *devices]


@dataclass(frozen=True)
class Cell:
    """One row of a table. batch: 0 where an operation has none."""

    comparison: int  # 1 to 3; 0: what the floors are made of; 4: training
    op: str
    transport: str
    workload: Workload
    batch: int
    layout: Layout

    @property
    def words(self) -> str:
        """The workload, with its batch."""
        return self.workload.with_batch(self.batch) if self.batch else self.workload.words


@dataclass(frozen=True)
class Slice:
    """Times of (c), and its floor: round trips by ping and bytes at the transport's rate, each the
    mean of right before and right behind.
    """

    p50_us: float
    round_trips_us: float
    bytes_us: float

    @property
    def floor_us(self) -> float:
        return self.round_trips_us + self.bytes_us

    @property
    def ratio(self) -> float:
        return self.p50_us / self.floor_us


@dataclass
class Results(Rounds):
    """By cell and the number of the round."""

    cells: dict[Cell, dict[int, list[float]]] = field(default_factory=dict)  # latencies, us
    polling: dict[Cell, int] = field(default_factory=dict)  # threads that poll
    slices: dict[Cell, dict[int, list[Slice]]] = field(default_factory=dict)
    # Bare transfers within a group, by transport, workload and size.
    bytes_per_second: dict[tuple[str, Workload, int], dict[int, list[float]]] = field(
        default_factory=dict
    )

    def add(self, group: Group, number: int, heard: Heard) -> None:
        """The group's round of that number, or what there is of it."""
        found: dict[Cell, list[float]] = defaultdict(list)
        # Pings are what a learner measures of a floor; then all are stopped.
        stops_s = [phase.end_s for phase in heard.phases if phase.op == FLOOR]
        for phase in heard.phases:

            def cell(comparison: int, op: str, batch: int, layout: Layout = phase.layout) -> Cell:
                return Cell(comparison, op, group.transport.name, group.workload, batch, layout)

            stored = during(heard.appends, phase, stops_s)
            if phase.op in {STORE, FETCH}:
                found[cell(1, phase.op, 0)] += stored if phase.op == STORE else phase.us
            elif phase.op == PING:
                found[cell(0, PING, 0)] += phase.us
            elif phase.op == BATCH:
                found[cell(2, BATCH, phase.batch)] += phase.us
                found[cell(2, STORE, phase.batch)] += stored
                self._add_slice(cell(2, BATCH, phase.batch), number, phase, heard.floors)
            elif phase.op == CYCLE:
                found[cell(3, CYCLE, phase.batch)] += phase.us
                self._add_slice(cell(3, CYCLE, phase.batch), number, phase, heard.floors)
            elif phase.op == TRAIN:
                found[cell(4, _trained(group), phase.batch)] += phase.us
                found[cell(4, f"{STORE} during: {_trained(group)}", phase.batch)] += stored
        for floor in heard.floors:
            size = length_for(group.workload, floor.batch)
            key = (group.transport.name, group.workload, size)
            rates = self.bytes_per_second.setdefault(key, {}).setdefault(number, [])
            rates.append(floor.bytes_per_second)
        for one, latencies in found.items():
            if latencies:
                self.cells.setdefault(one, {})[number] = latencies
                # While the learner rests, it does not poll.
                resting = one.comparison == 1 and one.op == STORE and group.polling_threads > 0
                self.polling[one] = group.polling_threads - resting

    def records(self) -> list[tuple[Cell, Record]]:
        """In the order of the tables: one layout below the other."""
        order = list(Layout)
        cells = sorted(
            self.cells,
            key=lambda cell: (
                cell.comparison,
                cell.op,
                _first(self.cells, cell),
                cell.transport,
                order.index(cell.layout),
            ),
        )
        return [(cell, self._record(cell)) for cell in cells]

    def _record(self, cell: Cell) -> Record:
        return Record.of(
            SUITE, f"{cell.layout.value}, {cell.transport}", cell.words, cell.op, self.cells[cell],
            oversubscribed=self.polling[cell] > self.cores.count,
        )  # fmt: skip

    def _add_slice(
        self, cell: Cell, number: int, phase: Phase, floors: Sequence[FloorSlice]
    ) -> None:
        """The ratios of (c), with the floors next to it on both sides."""
        beside = [one for one in floors if one.batch == phase.batch]
        before = [one for one in beside if one.end_s <= phase.start_s]
        behind = [one for one in beside if one.start_s >= phase.end_s]
        if phase.layout is not Layout.NETWORK or not phase.us or not before or not behind:
            return
        around = before[-1], behind[0]
        trips = {BATCH: 1, CYCLE: 2}[phase.op]
        size: int = layout_of(SHAPES[cell.workload.shape].spec(), cell.batch)["total_bytes"]
        size += _KEY_BYTES * cell.batch * (trips - 1)
        slice_ = Slice(
            float(np.median(phase.us)),
            trips * float(np.mean([one.ping_us for one in around])),
            float(np.mean([size / one.bytes_per_second for one in around])) * 1e6,
        )
        self.slices.setdefault(cell, {}).setdefault(number, []).append(slice_)


def _trained(group: Group) -> str:
    return f"{TRAINED}, shared core" if group.crowded else TRAINED


def _first(cells: Iterable[Cell], cell: Cell) -> int:
    """The place of the cell's workload and batch among all, as they were first measured."""
    seen = list(dict.fromkeys((one.workload, one.batch) for one in cells))
    return seen.index((cell.workload, cell.batch))


def during(appends: Sequence[Appends], phase: Phase, stops_s: Sequence[float] = ()) -> list[float]:
    """The latencies of appends that were begun within the phase.

    However long they took, or short phases would have only short ones. stops_s: when the actors
    were stopped, for a floor; appends that a stop interrupted are left out.
    """
    end_s = min((stop_s for stop_s in stops_s if stop_s >= phase.start_s), default=float("inf"))
    return [
        latency
        for one in appends
        if phase.start_s <= one.start_s <= phase.end_s and one.end_s <= end_s
        for latency in one.us
    ]


def measure_paper(
    stop: Stop,
    groups: Sequence[Group],
    *,
    rounds: int,
    effort: Effort,
    training_s: float,
    note: Note,
    training_rounds: int | None = None,
    places: Places | None = None,
    floors: bool = True,
) -> Results:
    """Measures all groups, a round at a time, and within each its transport's own rate.

    When stopped, what was measured until then is returned, marked as interrupted.
    """
    places = places or Places(Cores.usable())
    results = Results(cores=places.cores)

    def turn(group: Group) -> None:
        heard = Heard()
        try:
            with rates.beside(group) if floors else nullcontext() as rate:
                run_group(
                    stop, group, effort, places, heard, turn=results.number,
                    training_s=training_s, rate=rate,
                )  # fmt: skip
        finally:
            results.add(group, results.number, heard)

    def skipped(group: Group, number: int) -> bool:
        return group.training and number > (training_rounds or rounds)

    def lose(what: str, cause: str) -> None:
        results.leave_out(what, cause, note)

    with results.until_stopped(), Rates(stop, places.cores, lose) as rates:
        results.take_turns(stop, groups, rounds, turn, note, skipped=skipped)
    return results
