"""What is compared, in groups of processes; and those: a learner that times its access to the
replay, and its actors.

Each is called from the process that measures (Worker), or by `drlnet bench paper --role`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench import measure
from drlnet.bench.engine import Effort, Timed
from drlnet.bench.paper.counted import Counted, counted
from drlnet.bench.processes import Lasting
from drlnet.bench.shapes import Rows, bytes_of
from drlnet.bench.transport.measuring import Filled
from drlnet.bench.transport.suite import Subject
from drlnet.client import View
from drlnet.errors import ConfigError, TableMismatch
from drlnet.roles.reach import TIMEOUT_S, awaited

STORE, SINCE_DUE, FETCH, PING = "store", "store since due", "fetch", "ping"
_LEARNER, _COUNTING = "learner", "counting"  # sessions of the learner's process
TABLE = "experience"  # all roles have one: another size is refused by the server
BATCH, CYCLE = "batch", "batch + update"
CHUNK_S = 0.01  # of appends that are kept together: slices of 0.04 s and more hold several
_FETCHED_KEYS = 1000
_MOST, _MOST_OF_CHUNK = 2000, 70  # latencies that are kept; of more, evenly chosen ones

Buffer = NDArray[np.uint8]


class Layout(str, Enum):
    """Where the replay is, and which side draws."""

    LEARNER = "(a) in the learner"
    STORE = "(b) plain store"
    NETWORK = "(c) in-network"
    MIRROR = "(d) rows at learner"  # in-network, too, but for the rows: the learner mirrors them
    MEMORY = "memory server"  # comparison 1: no sampling at all


_STACKS = {"obs": View("row", (-3, 0)), "next_obs": View("row", (-2, 1))}  # as Atari's agents see
# Tables have more rows, all filled, than caches close to a core hold.
SHAPES = {
    "cartpole": Rows("40 B step", (40,), 65536),
    "frame": Rows("7 KB frame", (84, 84), 8192, _STACKS),
    "transition": Rows("56 KB transition", (2, 4, 84, 84), 2048),
}


@dataclass(frozen=True)
class Workload:
    """The actors of a group. rate: appends per second of each; 0: as fast as they can."""

    shape: str = "frame"
    actors: int = 2
    rate: float = 250.0

    @property
    def words(self) -> str:
        pace = f"at {self.rate:g}/s" if self.rate else "at full rate"
        return f"{SHAPES[self.shape].name}, {self.actors} actor{'s'[: self.actors - 1]} {pace}"

    def with_batch(self, batch: int) -> str:
        """What a record calls it. batch: 0 where an operation has none."""
        return f"{self.words}, batch {batch}" if batch else self.words


BASE = Workload()
ALONE = Workload(actors=1, rate=0.0)  # of comparison 1 only: one store after the other
BATCHES = (512, 32)


def variations(*, quick: bool) -> list[Workload]:
    """The base case, then one factor changed at a time."""
    shapes = ["cartpole"] if quick else ["cartpole", "transition"]
    found = [BASE, *(replace(BASE, shape=shape) for shape in shapes)]
    if quick:
        return found
    found += [replace(BASE, actors=actors) for actors in (1, 4, 8)]
    return [*found, replace(BASE, rate=0.0)]


Op = tuple[str, Layout, int]  # operation, layout, batch


PLACES = {
    "network": (Layout.NETWORK, Layout.STORE),
    "mirror": (Layout.MIRROR,),  # alone: rows that come meanwhile would take time from the others
    "learner": (Layout.LEARNER,),
}


@dataclass(frozen=True)
class Group:
    """One set of processes.

    place: of PLACES: which layouts are measured on one server. poll of the transport: of server,
    learner and actors.
    """

    place: str
    transport: Subject
    workload: Workload
    batches: tuple[int, ...]

    @property
    def name(self) -> str:
        where = ", ".join(layout.value.split()[0] for layout in sorted(PLACES[self.place]))
        where = where if self.batches else "memory server"
        return f"{where}, {self.transport.name}, {self.workload.words}"

    @property
    def polling_threads(self) -> int:
        """Threads that never sleep: server, learner, and actors without a pause.

        In (a) an actor that waits for its answer counts, too: the learner computes all the time,
        where elsewhere it waits for the server and leaves its core to actors.
        """
        if self.transport.poll != "busy":
            return 0
        paced = min(1, self.workload.actors) if self.place == "learner" else 0
        return 2 + (paced if self.workload.rate else self.workload.actors)


def operations(group: Group, turn: int, *, slices: int) -> Iterator[Op]:
    """What the learner does, one after the other; batch 0 where an operation has none.

    turn: the layouts at one server change by it. slices: of the cells of batches, which take turns.
    """
    layouts = PLACES[group.place]
    if group.place == "mirror":
        yield STORE, Layout.MIRROR, 0  # what rows alone cost
    if group.place == "network":
        fetches = [FETCH] if group.workload.rate else []
        yield from ((op, Layout.MEMORY, 0) for op in (PING, *fetches, STORE))
    for number in range(turn, turn + slices):
        for batch in group.batches:
            for layout in layouts[:: -1 if number % 2 else 1]:
                yield BATCH, layout, batch
                yield CYCLE, layout, batch


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
        # Where round trips dominate, the small batch is what shows it.
        both = workload in {BASE, replace(BASE, shape="cartpole")}
        for transport in transports:
            for place in PLACES:
                base = workload == BASE and not (quick and place == "learner")
                if base or transport in bases:
                    batches = BATCHES if both else BATCHES[:1]
                    found.append(Group(place, transport, workload, batches))
    return found


@dataclass(frozen=True)
class Phase:
    """One operation of the learner, one slice of it; times by the monotonic clock of the machine.

    us: none where the learner rests, and the actors are what is measured. counted: what passed the
    server meanwhile; nothing in (a).
    """

    op: str
    layout: Layout
    batch: int
    start_s: float
    end_s: float
    us: list[float]
    counted: Counted = field(default_factory=Counted)


@dataclass(frozen=True)
class Appends:
    """What one actor stored within a short time: a latency each.

    since_due_us: at a fixed rate, from when each was due: what kept it waiting counts, too.
    """

    start_s: float
    end_s: float
    us: list[float]
    since_due_us: list[float]


def thinned(latencies_us: NDArray[np.float64], most: int = _MOST) -> list[float]:
    """At most that many of them, as a sample of all."""
    step = -(-len(latencies_us) // most)
    chosen: list[float] = np.round(latencies_us[:: max(1, step)], 3).tolist()
    return chosen


def _reached(
    address: str, name: str, poll: str, spec: native.TableSpec, note: Callable[[str], None]
) -> tuple[measure.Session, int]:
    """A session at the server there, and the number of the table that all roles share.

    note: told when the server has not answered for a second. Raises ConfigError for one of several
    shards: what is timed asks a single one.
    """
    with awaited(address, note):
        session = measure.Session(address, name, TIMEOUT_S, poll)
    if session.shards > 1:
        raise ConfigError(
            f"the server at {address} has {session.shards} shards, and bench paper measures one "
            "that is alone",
            "start it without --shards",
        )
    try:
        return session, session.open_table(spec)
    except TableMismatch as error:
        raise TableMismatch(
            error.cause, "start all roles with the same size; a new server for another one"
        ) from error


class Learner:
    """A learner's side of one server: replays by layout, and what else can be timed there."""

    def __init__(self, poll: str, shape: str, note: Callable[[str], None] = lambda line: None):
        self._poll, self._shape, self._note = poll, SHAPES[shape], note
        self.spec = self._shape.spec(TABLE)
        self.replays: dict[Layout, measure.Replay] = {}
        self._others: dict[str, Timed] = {}
        self._buffers: dict[int, Buffer] = {}
        self._counting: measure.Session | None = None
        self._reading = Counted()  # what it costs to read the counters

    def serve(self, listen: str, core: int | None) -> str:
        """Layout (a): holds the replay itself, its server on a thread on `core`. The address."""
        replay = measure.LocalReplay(listen, self._poll, self.spec, core)
        replay.session.fill(replay.table, self.spec, self._shape.capacity)
        self.replays = {Layout.LEARNER: replay}
        return replay.address

    def open(self, address: str, place: str, fetches: bool) -> None:
        """The layouts of that place at one server, whose table serves all, and is filled.

        fetches: actors leave items in the table for long enough that single ones can be fetched.
        """
        session, table = _reached(address, _LEARNER, self._poll, self.spec, self._note)
        self._counting, _ = _reached(address, _COUNTING, self._poll, self.spec, self._note)
        filled = Filled(session, self.spec, self._shape.capacity)
        if place == "mirror":
            mirror = measure.MirroredReplay(session, _LEARNER, self._poll, self.spec)
            self.replays = {Layout.MIRROR: mirror}
        else:
            self.replays = {
                Layout.NETWORK: measure.InNetworkReplay(session, table, self.spec),
                Layout.STORE: measure.StoreReplay(session, table, self.spec),
            }
            self._others = {PING: partial(session.pings, 64)}
            if fetches:
                keys = filled.sampled_keys(_FETCHED_KEYS)
                self._others[FETCH] = partial(session.reads, table, keys, filled.buffer(1))
        before = self.counted()
        self._reading = self.counted() - before

    def counted(self) -> Counted:
        """The server's counters now."""
        if self._counting is None:
            return Counted()
        return counted(self._counting.counters(), _LEARNER, _COUNTING, TABLE)

    def buffer(self, batch: int) -> Buffer:
        """Memory for a batch, whose pages are there already."""
        if batch not in self._buffers:
            self._buffers[batch] = np.zeros(bytes_of(self.spec, batch), np.uint8)
        return self._buffers[batch]

    def measure(self, op: str, layout: Layout, batch: int, effort: Effort) -> Phase:
        """One phase."""
        timed, calls, before = self._others.get(op), 0, self.counted()
        if timed is None:
            replay = self.replays[layout]
            batches = replay.samples if op == BATCH else replay.cycles
            timed = partial(batches, batch, self.buffer(batch))
        loop = timed

        def counting(latencies_ns: NDArray[np.uint64], budget_s: float) -> int:
            nonlocal calls
            made = loop(latencies_ns, budget_s)
            calls += made
            return made

        start_s = time.monotonic()
        latencies = effort.latencies_us(counting)
        end_s = time.monotonic()
        passed = self.counted() - before - self._reading + Counted(calls=calls)
        return Phase(op, layout, batch, start_s, end_s, thinned(latencies), passed)


class Actor(Lasting):
    """Stores one step after the other, and says how long each took: a request for step and item."""

    def open(
        self,
        address: str,
        poll: str,
        shape: str,
        rate: float,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Connects. rate: appends per second; 0: as fast as it can. note: see Learner."""
        spec = SHAPES[shape].spec(TABLE)
        session, table = _reached(address, "actor", poll, spec, note)
        self._appender = measure.Appender(session, table, spec)
        self._row = np.ones(SHAPES[shape].row_bytes, np.uint8)
        self._interval_s = 1 / rate if rate else 0.0
        # At a fixed rate a chunk ends with its last append: sleeping on to an end costs one.
        self._most = max(1, round(CHUNK_S * rate)) if rate else 100_000

    def act(self) -> list[Appends]:
        """Appends until asked for something else."""
        latencies = np.empty(self._most, np.uint64)
        since_due = np.empty(self._most if self._interval_s else 0, np.uint64)
        timed: Timed = partial(self._appender.appends, self._row)
        if self._interval_s:
            paced = self._appender.paced_appends
            timed = partial(paced, self._row, self._interval_s, since_due)
        longest_s = CHUNK_S + self._most * self._interval_s
        chunks: list[Appends] = []
        with suppress(KeyboardInterrupt):
            while not self.asked():
                start_s = time.monotonic()
                count = timed(latencies, longest_s)
                both = (
                    thinned(times[:count] / 1e3, _MOST_OF_CHUNK) for times in (latencies, since_due)
                )
                chunks.append(Appends(start_s, time.monotonic(), *both))
        return chunks
