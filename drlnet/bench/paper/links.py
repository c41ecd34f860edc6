"""What each layout sends over the learner's link, by the server's counters; and from that, how many
batches links of other rates carry, and how many learners and actors one server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TextIO

import numpy as np
from rich.table import Table

from drlnet.bench import show as tables
from drlnet.bench.paper.counted import Counted
from drlnet.bench.paper.roles import BASE, BATCHES, CYCLE, PING, STORE, Layout, Workload
from drlnet.bench.paper.suite import PaperResults
from drlnet.plots import Axis, Figure, Line

RATES_GBIT = (1, 10, 40, 100)
SAMPLES_PER_INSERT = 8
LEARNER_ITEMS = 19 * 512  # a second: Ape-X's learner (Horgan et al., arXiv 1803.00933, section 4.1)
ACTOR_ROWS = 250  # a second: the base case's
_MOST_LEARNERS = 10_000


@dataclass(frozen=True)
class Load:
    """What a batch and its update cost one server and its learner's link, measured in one layout.

    Bytes, seconds and round trips of a batch; bytes and seconds of a new row, from its actor, and
    to each learner that mirrors the table. ping_s: a round trip there. cycle_s: what a batch and
    its update took there, p50.
    """

    subject: str
    batch: int
    reply_bytes: float
    request_bytes: float
    round_trips: float
    server_s: float
    row_bytes: float
    row_s: float
    followed_bytes: float
    followed_s: float
    ping_s: float
    cycle_s: float

    @property
    def new_rows(self) -> float:
        """That actors store for each batch."""
        return self.batch / SAMPLES_PER_INSERT

    def per_second(self, gbit: float) -> float:
        """Batches of one learner that asks for one after the other over a link of that rate.

        A batch takes its bytes at that rate and its round trips, and no less than it took here.
        """
        sent = self.reply_bytes + self.new_rows * self.followed_bytes
        seconds = sent * 8 / (gbit * 1e9) + self.round_trips * self.ping_s
        return 1 / max(seconds, self.cycle_s)

    def carried(self, gbit: float) -> tuple[int, str]:
        """(learners at LEARNER_ITEMS, what allows no more) of one server on a link of that rate.

        Each mirrors all rows; both directions of the link have that rate.
        """
        per_second, bytes_per_second = LEARNER_ITEMS / self.batch, gbit * 1e9 / 8
        for learners in range(1, _MOST_LEARNERS):
            batches = learners * per_second
            rows = batches * self.new_rows
            sent = batches * self.reply_bytes + learners * rows * self.followed_bytes
            received = batches * self.request_bytes + rows * self.row_bytes
            busy = batches * self.server_s + rows * (self.row_s + learners * self.followed_s)
            if max(sent, received) > bytes_per_second:
                return learners - 1, "link"
            if busy > 1:
                return learners - 1, "server"
        return _MOST_LEARNERS, ""

    def actors(self, learners: int) -> float:
        """That many keep the ratio of SAMPLES_PER_INSERT, at ACTOR_ROWS a second each."""
        return learners * LEARNER_ITEMS / SAMPLES_PER_INSERT / ACTOR_ROWS

    def to_dict(self) -> dict[str, object]:
        """With what follows from it, by the link's rate in Gbit/s."""
        found = {}
        for gbit in RATES_GBIT:
            learners, limit = self.carried(gbit)
            found[str(gbit)] = {
                "batches_per_second": self.per_second(gbit),
                "learners": learners,
                "actors": self.actors(learners),
                "limit": limit,
            }
        return {**self.__dict__, "links": found}


def load_of(
    subject: str,
    batch: int,
    cycles: Counted,
    resting: Counted | None,
    mirroring: Counted | None,
    times_s: tuple[float, float],
) -> Load:
    """resting, mirroring: while the learner asked for nothing, and while its mirror alone did.

    times_s: of a ping, of a cycle.
    """

    def per(total: float, count: float) -> float:
        return max(0.0, total) / max(1.0, count)

    row_s = per(resting.busy_s, resting.rows) if resting else 0.0
    mirrored = mirroring or Counted()
    beside_s = per(mirrored.busy_s, mirrored.rows) if mirroring else row_s
    return Load(
        subject,
        batch,
        reply_bytes=per(cycles.replies, cycles.calls),
        request_bytes=per(cycles.requests, cycles.calls),
        round_trips=per(cycles.asked, cycles.calls),
        server_s=per(cycles.busy_s - cycles.rows * beside_s, cycles.calls),
        row_bytes=per(cycles.appended, cycles.rows),
        row_s=row_s,
        followed_bytes=per(mirrored.followed, mirrored.rows),
        followed_s=max(0.0, beside_s - row_s),
        ping_s=times_s[0],
        cycle_s=times_s[1],
    )


def loads_of(results: PaperResults, workload: Workload = BASE) -> list[Load]:
    """What was measured of batches with their updates in that workload, (a) left out."""
    found = []
    for (subject, op, words), passed in results.passed.items():
        layout, _, transport = subject.partition(", ")
        batch = {workload.with_batch(batch): batch for batch in BATCHES}.get(words)
        pings = results.rounds.get((f"{Layout.MEMORY.value}, {transport}", PING, workload.words))
        if op != CYCLE or batch is None or passed.asked == 0 or pings is None:
            continue
        at_rest = [
            results.passed.get((f"{one.value}, {transport}", STORE, workload.words))
            for one in (Layout.MEMORY, Layout.MIRROR)
        ]
        mirrored = at_rest[1] if layout == Layout.MIRROR.value else None
        times = _p50_s(pings), _p50_s(results.rounds[subject, op, words])
        found.append(load_of(subject, batch, passed, at_rest[0], mirrored, times))
    return sorted(found, key=lambda load: (-load.batch, load.subject.split(", ")[::-1]))


def _p50_s(by_round: dict[int, list[float]]) -> float:
    return float(np.median([np.median(us) for us in by_round.values()])) / 1e6


def plot(loads: Sequence[Load]) -> Figure:
    """Batches a second over the link's rate, a panel per batch, a line per layout."""
    panels = {f"batch {load.batch}": load.batch for load in loads}
    figure = Figure(
        "Batches and updates per second of one learner, over the rate of its link",
        panels=[*panels] or [""],
    )
    for panel, batch in panels.items():
        lines = {
            load.subject: Line(RATES_GBIT, [load.per_second(gbit) for gbit in RATES_GBIT])
            for load in loads
            if load.batch == batch
        }
        figure.lines(panel, lines, x=Axis("Gbit/s", log=10), y=Axis("per second", log=10))
    return figure


_COLUMNS: dict[str, Callable[[Load, float], str]] = {
    "batches/s": lambda load, gbit: f"{load.per_second(gbit):,.0f}",
    "learners": lambda load, gbit: f"{load.carried(gbit)[0]:,}",
    "actors": lambda load, gbit: f"{load.actors(load.carried(gbit)[0]):,.0f}",
    "limit": lambda load, gbit: load.carried(gbit)[1],
}


def _heading(load: Load) -> str:
    _, _, transport = load.subject.partition(", ")
    return f"{transport}, batch {load.batch}"


def show(loads: Sequence[Load], *, file: TextIO) -> None:
    """Prints what a link of each rate carries."""
    if not loads:
        return
    console = tables.console_on(file)
    console.print("\nOver a link: computed from bytes and round trips", style="bold")
    columns = ("", "bytes", "Gbit/s", *_COLUMNS)
    rows = [(load, gbit) for load in loads for gbit in RATES_GBIT]
    for heading, of_link in groupby(rows, lambda row: _heading(row[0])):
        table = Table(*columns, box=None, padding=(0, 2, 0, 0), show_edge=False)
        for column in table.columns[1:]:
            column.justify, column.no_wrap = "right", True
        for load, gbit in of_link:
            sent = load.reply_bytes + load.new_rows * load.followed_bytes
            names = (load.subject.split(", ")[0], f"{sent:,.0f}")
            cells = (of(load, gbit) for of in _COLUMNS.values())
            table.add_row(*(names if gbit == RATES_GBIT[0] else ("", "")), str(gbit), *cells)
        console.print(heading, style="bold")
        console.print(table)
    for line in CAPTION:
        console.print(line, style="dim")


CAPTION = (
    f"Bytes: from the server for a batch and its update, with the {512 // SAMPLES_PER_INSERT} new "
    f"rows of a batch of 512 (samples_per_insert {SAMPLES_PER_INSERT}) in (d). Batches/s: of one "
    "learner, one after the other: the bytes at the link's rate and the round trips, each a ping "
    "of this machine, and no less than the p50 measured here.",
    f"Learners: of one server, each taking {LEARNER_ITEMS:,} items a second as Ape-X's does (arXiv "
    "1803.00933); in (d) each mirrors all rows: ranks with a shard each take their own alone. "
    f"Actors: at {ACTOR_ROWS} steps a second, as many as keep that ratio. Limit: what allows no "
    "more, the link or the server's thread by its time here.",
)
