"""Cells and their floors in slices: in which order, which floor is whose, and what fails alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from system.command import descendants

from drlnet.bench.engine import Effort
from drlnet.bench.machine import Cores
from drlnet.bench.paper.groups import (
    FloorSlice,
    Group,
    Heard,
    Places,
    Rates,
    length_for,
    operations,
    run_group,
)
from drlnet.bench.paper.report import floors, reductions
from drlnet.bench.paper.roles import CHUNK_S, FLOOR, Actor, Learner, Phase
from drlnet.bench.paper.suite import Results
from drlnet.bench.paper.workloads import BASE, SHAPES, Layout, Workload
from drlnet.bench.processes import Stopped
from drlnet.bench.transport.subjects import Subject
from drlnet.errors import TransportError
from drlnet.launch.signals import Stop

BLOCK = Subject("udp block", "udp://127.0.0.1:0", "block")
SMALL = Workload(shape="cartpole", actors=1, rate=500.0)


@pytest.fixture
def stop() -> Iterator[Stop]:
    with Stop() as entered:
        yield entered


def test_slices_take_turns_and_floors_lie_around_those_of_the_network() -> None:
    group = Group("network", BLOCK, SMALL, (32,))
    plan = list(operations(group, 1, slices=2, floors=True))
    network = [FLOOR, "batch", FLOOR, "batch + update", FLOOR]
    store = ["batch", "batch + update"]
    first = ["ping", "fetch", "store"]
    assert [op for op, _, _ in plan] == [*first, *store, *network, *network, *store]
    plain = [op for op, _, _ in operations(group, 0, slices=1, floors=False)]
    assert plain == [*first, *store, *store]
    inside = operations(replace(group, place="learner"), 0, slices=1, floors=False)
    assert [(op, layout) for op, layout, _ in inside] == [(op, Layout.LEARNER) for op in store]


def test_each_slice_has_its_own_floor(stop: Stop) -> None:
    """Cores that are far apart in some slices: all is slower there, and no ratio changes."""
    results, group = Results(cores=Cores(0, 1, 2)), Group("network", BLOCK, SMALL, (32,))
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
    results, group = Results(cores=Cores(0, 1, 2)), Group("network", BLOCK, SMALL, (32,))
    heard = Heard()
    for at, us in enumerate((12.0, 36.0, 12.0)):
        heard.phases.append(Phase("batch", Layout.NETWORK, 32, 10 * at, 10 * at + 1, [us]))
        heard.floors += [FloorSlice(32, 10 * at + t, 10 * at + t, 10.0, 1e18) for t in (-2, 2)]
    results.add(group, 1, heard)
    (near,) = floors(results, results.records())
    assert near.ratio == pytest.approx(1.2)
    assert [one.ratio for one in near.by_round[1]] == pytest.approx([1.2, 3.6, 1.2])


def test_an_actor_at_a_fixed_rate_does_not_sleep_past_a_chunk() -> None:
    learner, actor = Learner("block", "cartpole"), Actor()
    end_s = time.monotonic() + 0.3
    actor.hear(lambda: time.monotonic() > end_s)
    actor.open(learner.serve("udp://127.0.0.1:0", None), "block", "cartpole", SMALL.rate)
    chunks = actor.act()
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
    assert descendants(os.getpid()) == {}
