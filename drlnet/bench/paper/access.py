"""How a learner reaches the replay in each layout, and how it waits for its actors."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from drlnet import native
from drlnet.bench.filling import fill, writer
from drlnet.bench.paper.workloads import SHAPES, Layout
from drlnet.bench.rounds import Timed
from drlnet.client import Column, Item, Limiter, Sampler, View
from drlnet.client.specs import native_spec
from drlnet.errors import ConfigError, ReplayTimeout, TableMismatch
from drlnet.roles.reach import TIMEOUT_S, awaited

REDIS_SCHEME = "redis://"  # of an address that paper/redis_store.py is for
_MEETING_S = 60.0
_FETCHED_KEYS = 1000

Buffer = NDArray[np.uint8]


class Replay(Protocol):
    """What the native replays of each layout have, and Redis's has as well."""

    def sample(self, batch: int, out: Buffer, /) -> None:
        """A prioritized batch."""

    def update(self, keys: NDArray[np.uint64], priorities: NDArray[np.float32], /) -> None:
        """Its new priorities."""

    def samples(
        self, batch: int, out: Buffer, latencies_ns: NDArray[np.uint64], budget_s: float, /
    ) -> int:
        """A timed loop of the first."""

    def cycles(
        self, batch: int, out: Buffer, latencies_ns: NDArray[np.uint64], budget_s: float, /
    ) -> int:
        """A timed loop of both."""


@dataclass
class Access:
    """A learner's side of one server: replays by layout, and what else can be timed there."""

    spec: native.TableSpec
    replays: Mapping[Layout, Replay]
    wait_for_actors: Callable[[int], None]
    others: Mapping[str, Timed]  # by operation: ping, fetch

    def buffer(self, batch: int) -> Buffer:
        """Memory for a batch, whose pages are there already."""
        return np.zeros(layout_of(self.spec, batch)["total_bytes"], np.uint8)


def layout_of(spec: native.TableSpec, batch: int) -> dict[str, Any]:
    """Where the parts of a batch lie."""
    return cast(dict[str, Any], spec.layout(batch))


def pin_this_thread(core: int | None) -> None:
    """The calling thread, and those that it starts, on that core."""
    if core is not None:
        os.sched_setaffinity(0, {core})


def reached(address: str, name: str, poll: str, note: Callable[[str], None]) -> native.Client:
    """A client of the server there. note: told when it has not answered for a second.

    Raises ConfigError for one of several shards: what is timed asks a single one.
    """
    with awaited(address, note):
        client = native.Client(address, name, TIMEOUT_S, poll)
    if client.shards > 1:
        raise ConfigError(
            f"the server at {address} has {client.shards} shards, and bench paper measures one "
            "that is alone",
            "start it without --shards, or with drlnet bench paper --role server",
        )
    return client


def open_experience(client: native.Client, spec: native.TableSpec) -> int:
    """The table that all roles share."""
    try:
        return client.open_table(spec)
    except TableMismatch as error:
        raise TableMismatch(
            error.cause, "start all roles with the same --size; a new server for another one"
        ) from error


def _meeting_spec(actors: int) -> native.TableSpec:
    """A table that can be sampled once every actor has put an item into it."""
    return native_spec(
        f"meeting of {actors}", {"here": Column("uint8")}, Item({"here": View("here")}), 1024,
        Sampler("uniform"), Limiter(min_size=actors), seed=0,
    )  # fmt: skip


def join_meeting(client: native.Client, actors: int) -> None:
    """An actor's part: it is there."""
    spec = _meeting_spec(actors)
    joining = writer(client, client.open_table(spec), spec, 1, flush_rows=2)
    yes, no, step = np.ones(1, bool), np.zeros(1, bool), np.empty(1, np.int64)
    joining.append([yes], yes, no, np.empty(0, bool), step)
    joining.add_items(np.zeros(1, np.int64), step, np.empty(0, np.float32))
    joining.flush()


def _await_meeting(client: native.Client, actors: int) -> None:
    if actors == 0:
        return
    spec = _meeting_spec(actors)
    place = np.empty(layout_of(spec, 1)["total_bytes"], np.uint8)
    try:
        client.sample(client.open_table(spec), 1, place, _MEETING_S)
    except ReplayTimeout as error:
        raise ReplayTimeout(
            f"not all of {actors} actors came: {error.cause}",
            "start them with the same --server, or say how many there are with --actors",
        ) from error


def _prepared(client: native.Client, shape: str) -> tuple[native.TableSpec, int]:
    """The table, full."""
    spec = SHAPES[shape].spec()
    table = open_experience(client, spec)
    fill(client, table, spec, SHAPES[shape].row_bytes, SHAPES[shape].capacity)
    return spec, table


def _fetches(client: native.Client, spec: native.TableSpec, table: int) -> Timed:
    """Items by their keys, one at a time."""
    layout = layout_of(spec, _FETCHED_KEYS)
    batch = np.empty(layout["total_bytes"], np.uint8)
    client.sample(table, _FETCHED_KEYS, batch, TIMEOUT_S)
    keys = np.frombuffer(batch, np.uint64, _FETCHED_KEYS, layout["keys"]).copy()
    place = np.empty(layout_of(spec, 1)["total_bytes"], np.uint8)
    return partial(native.measure_reads, client, table, keys, place)


@contextmanager
def over_network(
    address: str, poll: str, shape: str, note: Callable[[str], None], *, paced: bool
) -> Iterator[Access]:
    """Layouts (b) and (c) at one server: the same table serves both.

    note: told that the server is waited for. paced: actors leave items in the table for long
    enough that single ones can be fetched.
    """
    client = reached(address, "learner", poll, note)
    spec, table = _prepared(client, shape)
    others: dict[str, Timed] = {"ping": partial(native.measure_pings, client, 64)}
    if paced:
        others["fetch"] = _fetches(client, spec, table)
    yield Access(
        spec,
        {
            Layout.NETWORK: native.InNetworkReplay(client, table, spec),
            Layout.STORE: native.StoreReplay(client, table, spec),
        },
        partial(_await_meeting, client),
        others,
    )


@contextmanager
def in_process(
    listen: str, poll: str, shape: str, ready: Callable[[str], None], core: int | None
) -> Iterator[Access]:
    """Layout (a): the server runs in a thread of this process, on `core`.

    Actors come through its socket, whose address goes to `ready`. The learner's own accesses are
    local: they visit the tables between two rounds of the server.
    """
    # A second way in, for this process: to open and to fill the table, not to be measured.
    server = native.Server([listen, "memory:"], poll)
    failures: list[BaseException] = []

    def run() -> None:
        pin_this_thread(core)
        try:
            server.run()
        except BaseException as error:
            failures.append(error)  # the learner's thread raises it

    thread = threading.Thread(target=run, name="replay")
    thread.start()
    with ExitStack() as stack:
        stack.callback(thread.join)
        stack.callback(server.stop)
        address, own = server.addresses
        client = native.Client(own, "learner", TIMEOUT_S, poll)
        spec, _ = _prepared(client, shape)
        ready(address)
        yield Access(
            spec,
            {Layout.LEARNER: native.LocalReplay(server, spec)},
            partial(_await_meeting, client),
            {},
        )
        del client
    if failures:
        raise failures[0]
