"""Cells and their floors in slices: in which order, which floor is whose, and what fails alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from system.command import descendants

from drlnet.bench.cores import Cores
from drlnet.bench.paper.access import Access, Buffer, in_process
from drlnet.bench.paper.actor import act
from drlnet.bench.paper.comparisons import floors, reductions
from drlnet.bench.paper.groups import Group, Heard, Places, run_group
from drlnet.bench.paper.learner import FLOOR, PING, learn
from drlnet.bench.paper.phases import CHUNK_S, Appends, FloorSlice, Phase
from drlnet.bench.paper.rates import Rates, length_for
from drlnet.bench.paper.results import Results
from drlnet.bench.paper.workloads import BASE, SHAPES, Layout, Workload
from drlnet.bench.rounds import Effort
from drlnet.bench.transport.subjects import Subject
from drlnet.bench.worker import Stopped
from drlnet.errors import TransportError
from drlnet.launch.signals import Stop

BLOCK = Subject("udp block", "udp://127.0.0.1:0", "block")
SMALL = Workload(shape="cartpole", actors=1, rate=500.0)


class _Instant:
    """A replay whose operations take 2 us."""

    def samples(
        self, batch: int, out: Buffer, latencies_ns: NDArray[np.uint64], budget_s: float
    ) -> int:
        latencies_ns[:] = 2000
        return len(latencies_ns)

    cycles = samples


def _ping(latencies_ns: NDArray[np.uint64], budget_s: float) -> int:
    latencies_ns[:] = 1000
    return len(latencies_ns)


@pytest.fixture
def stop() -> Iterator[Stop]:
    with Stop() as entered:
        yield entered


def test_slices_take_turns_and_floors_lie_around_those_of_the_network(stop: Stop) -> None:
    replays: Mapping[Layout, Any] = {Layout.NETWORK: _Instant(), Layout.STORE: _Instant()}
    access = Access(SHAPES["cartpole"].spec(), replays, lambda actors: None, {PING: _ping})
    said: list[Phase] = []
    paused: list[int] = []

    def pause() -> None:
        assert said[-1].op == FLOOR
        paused.append(len(said))

    effort = Effort(calls=10, budget_s=0.01, warm_up=1)
    learn(access, [32], effort, stop, said.append, turn=1, slices=2, pause=pause)
    network = [FLOOR, "batch", FLOOR, "batch + update", FLOOR]
    store = ["batch", "batch + update"]
    assert [one.op for one in said] == ["ping", "store", *store, *network, *network, *store]
    assert [len(one.us) for one in said if one.op == "batch"] == [10, 10, 10, 10]
    assert len(paused) == 6
    said.clear()
    learn(access, [32], effort, stop, said.append)
    assert [one.op for one in said] == ["ping", "store", *store, *store]


def test_each_slice_has_its_own_floor(stop: Stop) -> None:
    """Cores that are far apart in some slices: all is slower there, and no ratio changes."""
    results, group = Results(cores=2), Group("network", BLOCK, SMALL, (32,))
    size = SHAPES["cartpole"].spec().layout(32)["total_bytes"]
    assert isinstance(size, int)
    states = {1: (1.0, 1.0), 2: (1.0, 3.0), 3: (3.0, 3.0)}  # how much slower, by round and slice
    for number, of_round in states.items():
        heard = Heard()
        for at, slower in enumerate(of_round):
            start_s = 10.0 * at
            heard.phases += [
                Phase("batch", Layout.NETWORK, 32, start_s, start_s + 1, [slower * 12.0]),
                Phase("batch", Layout.STORE, 32, start_s + 5, start_s + 6, [slower * 24.0]),
            ]
            rate = size / (slower * 6.0) * 1e6
            heard.floors += [
                FloorSlice(32, start_s + before, start_s + before + 1, slower * 4.0, rate)
                for before in (-2, 2)
            ]
            # Of other batches, which is next to it and not its own.
            heard.floors.append(FloorSlice(512, start_s - 1, start_s, 1e6, 1.0))
        results.add(group, number, heard)
    # A slice without a floor behind it, as of a learner that was stopped, has none.
    alone = Heard([Phase("batch", Layout.NETWORK, 32, 0, 1, [12.0])])
    alone.floors.append(FloorSlice(32, -1, 0, 4.0, 1.0))
    results.add(group, 4, alone)
    rows = results.records()
    (near,) = floors(results, rows)
    assert {number: len(slices) for number, slices in near.by_round.items()} == {1: 2, 2: 2, 3: 2}
    assert near.floor_us == pytest.approx(20.0)  # of 10 and 30, thrice each
    assert (near.ratio, near.low, near.high) == pytest.approx((1.2, 1.2, 1.2))
    assert near.within
    (reduction,) = reductions(rows, "udp block", "udp busy")
    assert (reduction.share, reduction.low, reduction.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_slice_that_the_cores_moved_in_does_not_make_the_figure() -> None:
    results, group = Results(cores=2), Group("network", BLOCK, SMALL, (32,))
    heard = Heard()
    for at, us in enumerate((12.0, 36.0, 12.0)):
        heard.phases.append(Phase("batch", Layout.NETWORK, 32, 10 * at, 10 * at + 1, [us]))
        heard.floors += [FloorSlice(32, 10 * at + t, 10 * at + t, 10.0, 1e18) for t in (-2, 2)]
    results.add(group, 1, heard)
    (near,) = floors(results, results.records())
    assert near.ratio == pytest.approx(1.2)
    assert [one.ratio for one in near.by_round[1]] == pytest.approx([1.2, 3.6, 1.2])


def test_an_actor_at_a_fixed_rate_does_not_sleep_past_a_chunk(stop: Stop) -> None:
    addresses: list[str] = []
    chunks: list[Appends] = []
    with in_process("udp://127.0.0.1:0", "block", "cartpole", addresses.append, None):
        act(addresses[0], "block", SMALL, stop, chunks.extend, lambda line: None, for_s=0.3)
    # Fewer where the machine lets it wake late.
    assert max(len(one.us) for one in chunks) == round(CHUNK_S * SMALL.rate)
    # One interval for each append, however late the machine lets it wake.
    assert all(one.end_s - one.start_s >= len(one.us) / SMALL.rate for one in chunks)


def test_a_rate_is_measured_of_the_lengths_that_a_floor_takes() -> None:
    base = SHAPES[BASE.shape].spec()
    large, small = (base.layout(batch)["total_bytes"] for batch in (512, 32))
    assert [length_for(BASE, batch) for batch in (512, 32)] == [large, small]
    assert [length_for(SMALL, batch) for batch in (512, 32)] == [small, small]


def test_a_transport_without_a_rate_is_named_once(stop: Stop) -> None:
    absent = Group("network", Subject("absent", "absent:1", "block"), SMALL, (32,))
    here = Group("network", BLOCK, SMALL, (32,))
    told: list[str] = []
    with Rates(stop, Cores.usable(), lambda what, cause: told.append(what)) as rates:
        with rates.beside(absent) as rate:
            assert rate is not None
            assert (rate(32), rate(32)) == (None, None)
        assert told == ["bytes of absent"]
        with rates.beside(absent) as rate:
            assert rate is None
        for _ in range(2):  # the second of them new
            with rates.beside(here) as rate:
                assert rate is not None
                assert all((rate(32) or 0) > 1e6 for _ in range(2))
        with rates.beside(here):
            pass  # a group that ended before its first floor
        for other in (
            Group("network", BLOCK, SMALL, (32,), training=True),
            Group("learner", BLOCK, SMALL, (32,)),
            Group("network", BLOCK, SMALL, ()),
        ):
            with rates.beside(other) as rate:
                assert rate is None
    assert told == ["bytes of absent"]
    assert descendants(os.getpid()) == {}


@pytest.mark.parametrize("raised", [Stopped(), TransportError("no rate", "none")])
def test_roles_that_are_stopped_for_a_floor_go_on_to_their_end(
    stop: Stop, raised: Exception
) -> None:
    """Who still slept would have to be killed, and would not have said what it had appended."""

    def rate(batch: int) -> float | None:
        if len(asked) == 2:
            raise raised
        asked.append(batch)
        return 1e9

    asked: list[int] = []
    heard, group = Heard(), Group("network", BLOCK, SMALL, (32,))
    effort = Effort(calls=2000, budget_s=0.12, warm_up=2)
    with pytest.raises(type(raised)):
        run_group(stop, group, effort, Places(Cores.usable()), heard, rate=rate)
    assert len(heard.floors) == 2
    assert heard.appends[-1].end_s > heard.floors[-1].start_s
    assert descendants(os.getpid()) == {}
