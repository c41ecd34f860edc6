"""What the groups measured, as records; and the floor of the in-network layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from drlnet.bench.distance import CoreDistance
from drlnet.bench.paper.access import layout_of
from drlnet.bench.paper.groups import Group, Heard
from drlnet.bench.paper.learner import BATCH, CYCLE, FETCH, FLOOR, PING, STORE, TRAIN
from drlnet.bench.paper.phases import FloorSlice, Phase, during
from drlnet.bench.paper.rates import length_for
from drlnet.bench.paper.workloads import SHAPES, Layout, Workload
from drlnet.bench.records import Record

SUITE = "paper"
TRAINED = "training step"
_KEY_BYTES = 12  # of an update: a key and a priority


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
    """Of (c), and its floor: round trips by ping and bytes at the transport's rate, each the mean
    of right before and right behind.
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
class Results:
    """By cell and the number of the round."""

    cores: int
    rounds: dict[Cell, dict[int, list[float]]] = field(default_factory=dict)  # latencies, us
    polling: dict[Cell, int] = field(default_factory=dict)  # threads that poll
    slices: dict[Cell, dict[int, list[Slice]]] = field(default_factory=dict)
    # Of bare transfers within a group, by transport, workload and size.
    bytes_per_second: dict[tuple[str, Workload, int], dict[int, list[float]]] = field(
        default_factory=dict
    )
    distance: CoreDistance = field(default_factory=CoreDistance)
    failed: dict[str, str] = field(default_factory=dict)  # group: cause and remedy
    interrupted: bool = False

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
                self.rounds.setdefault(one, {})[number] = latencies
                # While the learner rests, it does not poll.
                resting = one.comparison == 1 and one.op == STORE and group.polling_threads > 0
                self.polling[one] = group.polling_threads - resting

    def records(self) -> list[tuple[Cell, Record]]:
        """In the order of the tables: one layout below the other."""
        order = list(Layout)
        cells = sorted(
            self.rounds,
            key=lambda cell: (
                cell.comparison,
                cell.op,
                _first(self.rounds, cell),
                cell.transport,
                order.index(cell.layout),
            ),
        )
        return [(cell, self._record(cell)) for cell in cells]

    def _record(self, cell: Cell) -> Record:
        return Record.of(
            SUITE,
            f"{cell.layout.value}, {cell.transport}",
            cell.words,
            cell.op,
            self.rounds[cell],
            oversubscribed=self.polling[cell] > self.cores,
        )

    def _add_slice(
        self, cell: Cell, number: int, phase: Phase, floors: Sequence[FloorSlice]
    ) -> None:
        """Of (c), with the floors next to it on both sides."""
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
