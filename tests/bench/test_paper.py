"""The paper's experiments, small: what is compared, what is kept when something fails."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from system.command import descendants

import drlnet
from drlnet.bench.engine import Effort
from drlnet.bench.machine import Cores
from drlnet.bench.paper.groups import (
    SLICE_S,
    FloorSlice,
    Group,
    Heard,
)
from drlnet.bench.paper.netns import through_server
from drlnet.bench.paper.report import COMPARISONS, caption, floors, plot, reductions, show
from drlnet.bench.paper.roles import Appends, Phase, thinned
from drlnet.bench.paper.suite import Cell, Results, during, groups_of, measure_paper, transports_of
from drlnet.bench.paper.workloads import BASE, SHAPES, Layout, Workload
from drlnet.bench.transport.subjects import Subject, subjects_of
from drlnet.errors import TransportError
from drlnet.launch.signals import Stop

TINY = Effort(calls=2000, budget_s=0.12, warm_up=2)
BLOCK = Subject("udp block", "udp://127.0.0.1:0", "block")
BUSY = Subject("udp busy", "udp://127.0.0.1:0", "busy")
HAS_DPDK = Path(drlnet.__file__).with_name("libdrlnet_dpdk.so").exists()
TWO = Cores(0, 1, 2)
SMALL = Workload(shape="cartpole", actors=1, rate=500.0)


def phase(op: str, layout: Layout, us: list[float], batch: int = 32, start_s: float = 0) -> Phase:
    return Phase(op, layout, batch, start_s, start_s + 1, us)


def heard_of_all() -> Heard:
    heard = Heard()
    for place, (layout, us) in enumerate(
        [(Layout.LEARNER, 1.0), (Layout.STORE, 40.0), (Layout.NETWORK, 20.0)]
    ):
        heard.phases += [
            phase("batch", layout, [us, us], start_s=10 * place),
            phase("batch + update", layout, [2 * us, 2 * us], start_s=10 * place + 5),
        ]
    heard.phases += [
        phase("ping", Layout.MEMORY, [4.0], 1, 100),
        phase("store", Layout.MEMORY, [], 1, 110),
        phase("fetch", Layout.MEMORY, [6.0], 1, 120),
    ]
    heard.appends = [Appends(at + 0.1, at + 0.2, [7.0, 9.0]) for at in (0, 10, 20, 110, 130)]
    return heard


def results_of_all() -> Results:
    results = Results(cores=TWO)
    for transport, slower in ((BLOCK, 10), (BUSY, 2), (Subject("dpdk:local busy", "", "busy"), 1)):
        heard = heard_of_all()
        heard.phases = [replace(p, us=[slower * us for us in p.us]) for p in heard.phases]
        # (c) is measured from 20 s to 26 s.
        heard.floors = [
            FloorSlice(32, at, at + 1, slower * ping_us, rate)
            for at, ping_us, rate in (
                (-9, 50.0, 1.0),
                (18, 3.0, 1e9),
                (23, 5.0, 2e9),
                (27, 5.0, 2e9),
            )
        ]
        results.add(Group("network", transport, SMALL, (32,)), 1, heard)
    return results


def test_the_base_case_and_one_factor_at_a_time() -> None:
    groups = groups_of([BLOCK, BUSY], quick=False)
    base = {
        (group.place, group.transport.name)
        for group in groups
        if group.workload == BASE and not group.training
    }
    places = {(place, t.name) for place in ("network", "learner") for t in (BLOCK, BUSY)}
    assert base == places
    for group in groups:
        if group.batches:
            assert sum(
                getattr(group.workload, factor) != getattr(BASE, factor)
                for factor in ("shape", "actors", "rate")
            ) in {0, 1}
    assert {group.workload.actors for group in groups} == {1, 2, 4, 8}
    assert {group.workload.shape for group in groups} == set(SHAPES)
    quick = groups_of([BLOCK, BUSY], quick=True)
    assert set(quick) < set(groups)


def test_polling_threads_are_counted() -> None:
    paced = Group("network", BUSY, SMALL, (32,))
    assert paced.polling_threads == 2
    assert replace(paced, transport=BLOCK).polling_threads == 0
    assert replace(paced, place="learner").polling_threads == 3
    assert replace(paced, workload=replace(SMALL, actors=4, rate=0.0)).polling_threads == 6


def test_appends_belong_to_the_phase_that_they_fell_into() -> None:
    one = phase("batch", Layout.STORE, [1.0], start_s=5)
    appends = [
        Appends(4.9, 5.1, [1]), Appends(5.1, 5.2, [2, 3]), Appends(5.9, 6.1, [4]),
        Appends(6.1, 6.2, [5]),
    ]  # fmt: skip
    assert during(appends, one) == [2, 3, 4]
    # Stopped at some time before, right behind, and long after.
    assert during(appends, one, [4.5, 6.05, 9]) == [2, 3]
    assert len(thinned(np.arange(10_000.0))) == 2000
    assert thinned(np.array([1.25])) == [1.25]


def test_what_is_lower_than_what_and_how_near_the_floor() -> None:
    results = results_of_all()
    rows = results.records()
    found = {
        (one.comparison, one.subject, one.op, one.than): one.share
        for one in reductions(rows, "udp block", "udp busy")
    }
    assert found[1, "memory server, dpdk:local busy", "fetch", "memory server, udp block"] == (
        pytest.approx(0.9)
    )
    assert found[1, "memory server, dpdk:local busy", "fetch", "memory server, udp busy"] == (
        pytest.approx(0.5)
    )
    assert ("memory server, udp block", "memory server, udp busy") not in {
        (subject, than) for _, subject, _, than in found
    }
    c, b, a = (
        f"{layout.value}, udp busy" for layout in (Layout.NETWORK, Layout.STORE, Layout.LEARNER)
    )
    assert found[2, c, "batch", b] == pytest.approx(0.5)
    assert found[3, c, "batch + update", a] == pytest.approx(-19)
    assert found[2, c, "store", b] == pytest.approx(0)
    (near,) = [one for one in floors(results, rows) if (one.subject, one.op) == (c, "batch")]
    size = SHAPES["cartpole"].spec().layout(32)["total_bytes"]
    assert isinstance(size, int)
    assert near.floor_us == pytest.approx(8.0 + size * (1 / 1e9 + 1 / 2e9) / 2 * 1e6)
    assert near.ratio == pytest.approx(40 / near.floor_us)
    assert not near.within
    assert {one.op for one in floors(results, rows)} == {"batch", "batch + update"}


def test_tables_fit_a_terminal_and_say_what_they_mean() -> None:
    results = results_of_all()
    results.unavailable["(b), dpdk"] = "it died"
    training = Group("learner", BLOCK, SMALL, (32,), training=True, crowded=True)
    steps = [1e4, 1e4, 4e4]  # 50 of them would take a second
    busy = Heard([phase("train", Layout.LEARNER, steps)], [Appends(0.1, 0.2, [50.0])])
    results.add(training, 1, busy)
    rows = results.records()
    file = io.StringIO()
    show(rows, reductions(rows, "udp block", "udp busy"), floors(results, rows), results, file=file)
    text = file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    for words in ("Comparison 1", "Comparison 2", "Comparison 3", "it died"):
        assert words in text
    (line,) = [line for line in text.splitlines() if "shared core" in line]
    assert line.split()[-3:] == ["50.0", "50.00", "50.00"]
    for comparison in COMPARISONS:
        lines = " ".join(caption(comparison, [record for _, record in rows]))
        assert "neither is a network" in lines
        assert f"{100 * comparison.low:.1f}% to {100 * comparison.high:.1f}%" in lines
        assert "interfaces" in " ".join(caption(comparison, [], network=True))
    ElementTree.fromstring(plot(rows).svg())


def test_where_no_floor_was_measured_nothing_is_said_of_one() -> None:
    """As between namespaces, where there are no bare transfers."""
    results = results_of_all()
    results.bytes_per_second.clear()
    rows = results.records()
    file = io.StringIO()
    show(rows, reductions(rows, "udp block", "udp busy"), [], results, file=file, network=True)
    assert "floor" not in file.getvalue().lower()


def test_groups_are_told_apart_by_their_names() -> None:
    """What failed, and what the cores' distance was before, is kept by name."""
    groups = groups_of([BLOCK, BUSY], quick=False)
    assert len({group.name for group in groups}) == len(groups)


@pytest.fixture
def stop() -> Iterator[Stop]:
    with Stop() as entered:
        yield entered


def test_one_round_measures_every_layout_and_leaves_nothing(stop: Stop) -> None:
    groups = [Group(place, BLOCK, SMALL, (32,)) for place in ("network", "learner")]
    groups.append(Group("network", Subject("absent", "absent:1", "block"), SMALL, (32,)))
    notes: list[str] = []
    results = measure_paper(stop, groups, rounds=1, effort=TINY, training_s=0, note=notes.append)
    assert set(results.unavailable) == {"bytes of absent", groups[2].name}
    assert any("skipped" in note for note in notes)
    rows = results.records()
    cells = {(cell.comparison, cell.op, cell.layout) for cell, _ in rows}
    for layout in (Layout.LEARNER, Layout.STORE, Layout.NETWORK):
        assert {(2, "batch", layout), (3, "batch + update", layout)} <= cells
    assert {(1, "fetch", Layout.MEMORY), (0, "ping", Layout.MEMORY)} <= cells
    assert any(op == "store" for _, op, _ in cells)
    assert len(floors(results, rows)) == 2
    slices = round(TINY.budget_s / SLICE_S)
    assert all(len(one.by_round[1]) == slices for one in floors(results, rows))
    (rates,) = results.bytes_per_second.values()
    assert [len(of_round) for of_round in rates.values()] == [3 * slices]
    (looks,) = results.distance.rounds  # fewer where other work had the cores
    assert {look.before for look in looks} <= {group.name for group in groups}
    assert all(0 < record.p50_us < 5e6 for _, record in rows)
    assert descendants(os.getpid()) == {}


def test_namespaces_take_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TransportError, match="takes root"), through_server(Cores.usable()):
        pass


@pytest.mark.exhaustive
def test_roles_in_namespaces_meet_through_the_servers_host(stop: Stop) -> None:
    if os.geteuid() != 0:
        pytest.skip("network namespaces take root")
    with through_server(Cores.usable()) as (places, subjects):
        # Asleep, not polled: roles that spin would only take turns beside the other tests.
        over = [subjects[0], *(replace(s, poll="block") for s in subjects[2:] if HAS_DPDK)]
        groups = [
            Group(place, subject, SMALL, (32,))
            for place in ("network", "learner")
            for subject in over
        ]
        results = measure_paper(
            stop, groups, rounds=1, effort=TINY, training_s=0, note=lambda line: None,
            places=places, floors=False,
        )  # fmt: skip
    assert not results.unavailable
    cells = {(cell.transport, cell.layout) for cell in results.cells if cell.comparison == 3}
    layouts = (Layout.LEARNER, Layout.STORE, Layout.NETWORK)
    assert cells == {(subject.name, layout) for subject in over for layout in layouts}
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert f"drl{os.getpid()}" not in listed.stdout


def test_kernel_udp_comes_first() -> None:
    names = [subject.name for subject in transports_of(subjects_of(["dpdk:local"]))]
    assert names == ["udp block", "udp busy", "dpdk:local busy"]


def test_a_cell_says_its_batch() -> None:
    cell = Cell(2, "batch", "udp block", SMALL, 32, Layout.STORE)
    assert cell.words == "40 B step, 1 actor at 500/s, batch 32"
    assert replace(cell, batch=0).words == "40 B step, 1 actor at 500/s"
