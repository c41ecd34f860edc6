"""The paper's experiments, small: what is compared, what is kept when something fails."""

from __future__ import annotations

import io
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from system.command import descendants

import drlnet
from drlnet.bench.engine import Course, Effort
from drlnet.bench.machine import Cores
from drlnet.bench.netns import through_server
from drlnet.bench.paper.links import loads_of
from drlnet.bench.paper.roles import (
    BASE,
    BATCHES,
    CHUNK_S,
    PLACES,
    SHAPES,
    SINCE_DUE,
    STORE,
    Actor,
    Appends,
    Group,
    Layout,
    Learner,
    Phase,
    Workload,
    groups_of,
    operations,
    thinned,
)
from drlnet.bench.paper.suite import (
    COMPARISONS,
    OPS,
    Heard,
    PaperResults,
    caption,
    comparison_of,
    during,
    keep,
    measure_paper,
    plot,
    records_of,
    reductions,
    show,
)
from drlnet.bench.transport.suite import Subject, subjects_of
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
        [
            (Layout.LEARNER, 1.0),
            (Layout.STORE, 40.0),
            (Layout.NETWORK, 20.0),
            (Layout.MIRROR, 5.0),
        ]
    ):
        heard.phases += [
            phase("batch", layout, [us, us], start_s=10 * place),
            phase("batch + update", layout, [2 * us, 2 * us], start_s=10 * place + 5),
        ]
    heard.phases += [
        phase("ping", Layout.MEMORY, [4.0], 0, 100),
        phase("store", Layout.MEMORY, [], 0, 110),
        phase("fetch", Layout.MEMORY, [6.0], 0, 120),
    ]
    heard.appends = [
        Appends(at + 0.1, at + 0.2, [7.0, 9.0], [8.0, 90.0]) for at in (0, 10, 20, 30, 110, 130)
    ]
    return heard


def results_of_all() -> PaperResults:
    results = PaperResults(cores=TWO)
    for transport, slower in ((BLOCK, 10), (BUSY, 2), (Subject("dpdk:local busy", "", "busy"), 1)):
        heard = heard_of_all()
        heard.phases = [replace(p, us=[slower * us for us in p.us]) for p in heard.phases]
        keep(results, Group("network", transport, SMALL, (32,)), heard)
    return results


def test_the_base_case_and_one_factor_at_a_time() -> None:
    groups = groups_of([BLOCK, BUSY], quick=False)
    base = {(group.place, group.transport.name) for group in groups if group.workload == BASE}
    places = {(place, t.name) for place in PLACES for t in (BLOCK, BUSY)}
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


def test_layouts_take_turns_in_slices() -> None:
    group = Group("network", BLOCK, SMALL, (32,))
    plan = list(operations(group, 1, slices=2))
    cells = ["batch", "batch + update"]
    assert [op for op, _, _ in plan] == ["ping", "fetch", "store", *4 * cells]
    turns = [Layout.STORE, Layout.NETWORK, Layout.NETWORK, Layout.STORE]
    assert [layout for _, layout, _ in plan[3::2]] == turns
    inside = operations(replace(group, place="learner"), 0, slices=1)
    assert [(op, layout) for op, layout, _ in inside] == [(op, Layout.LEARNER) for op in cells]
    mirrored = operations(replace(group, place="mirror"), 0, slices=1)
    assert [(op, layout) for op, layout, _ in mirrored] == [
        (op, Layout.MIRROR) for op in ("store", *cells)
    ]


def test_an_actor_at_a_fixed_rate_does_not_sleep_past_a_chunk() -> None:
    learner, actor = Learner("block", "cartpole"), Actor()
    actor.open(learner.serve("udp://127.0.0.1:0", None), "block", "cartpole", SMALL.rate)
    end_s = time.monotonic() + 0.3
    actor.asked = lambda: time.monotonic() > end_s
    chunks = actor.act()
    # Fewer where the machine lets it wake late.
    assert max(len(one.us) for one in chunks) == round(CHUNK_S * SMALL.rate)
    # One interval for each append: what was late is made up for, and no more than that.
    count = sum(len(one.us) for one in chunks)
    assert chunks[-1].end_s - chunks[0].start_s >= (count - 1) / SMALL.rate
    # From when it was due: what it took, and what it waited for before.
    for one in chunks:
        pairs = zip(one.since_due_us, one.us, strict=True)
        assert all(since_due > us for since_due, us in pairs)


def test_at_full_rate_nothing_is_due() -> None:
    learner, actor = Learner("block", "cartpole"), Actor()
    actor.open(learner.serve("udp://127.0.0.1:0", None), "block", "cartpole", 0.0)
    asked = iter([False, True])
    actor.asked = lambda: next(asked)
    (chunk,) = actor.act()
    assert chunk.us and not chunk.since_due_us


def test_polling_threads_are_counted() -> None:
    paced = Group("network", BUSY, SMALL, (32,))
    assert paced.polling_threads == 2
    assert replace(paced, transport=BLOCK).polling_threads == 0
    assert replace(paced, place="learner").polling_threads == 3
    assert replace(paced, workload=replace(SMALL, actors=4, rate=0.0)).polling_threads == 6


def test_appends_belong_to_the_phase_that_they_fell_into() -> None:
    one = phase("batch", Layout.STORE, [1.0], start_s=5)
    appends = [Appends(start_s, start_s + 0.1, [1.0], [2.0]) for start_s in (4.9, 5.1, 5.9, 6.1)]
    assert during(appends, one) == appends[1:3]
    assert len(thinned(np.arange(10_000.0))) == 2000
    assert thinned(np.array([1.25])) == [1.25]


def test_what_is_lower_than_what() -> None:
    results = results_of_all()
    records = records_of(results)
    found = {
        (one.comparison, one.subject, one.op, one.than): one.share
        for one in reductions(records, "udp block", "udp busy")
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
    a, b, c, d = (
        f"{layout.value}, udp busy"
        for layout in (Layout.LEARNER, Layout.STORE, Layout.NETWORK, Layout.MIRROR)
    )
    assert found[2, c, "batch", b] == pytest.approx(0.5)
    assert found[3, c, "batch + update", a] == pytest.approx(-19)
    assert found[2, c, "store", b] == pytest.approx(0)
    assert found[3, d, "batch + update", c] == pytest.approx(0.75)
    assert found[2, d, "batch", b] == pytest.approx(0.875)
    stored = {r.op: (r.p50_us, r.rounds) for r in records if r.subject == c if r.op in OPS[1:3]}
    assert stored == {STORE: (pytest.approx(8), 1), SINCE_DUE: (pytest.approx(49), 1)}


def test_tables_fit_a_terminal_and_say_what_they_mean() -> None:
    results = results_of_all()
    records = records_of(results)
    file = io.StringIO()
    show(records, reductions(records, "udp block", "udp busy"), file=file)
    text = file.getvalue()
    assert max(len(line) for line in text.splitlines()) <= 80
    for words in ("Comparison 1", "Comparison 2", "Comparison 3"):
        assert words in text
    lines = iter(text.splitlines())
    assert any("udp busy: batch, 40 B step" in line for line in lines)
    line = next(line for line in lines if "(c) in-network" in line)
    assert line.split()[2:] == ["40.00", "40.00", "40.00-40.00", "-50%", "+1900%"]
    line = next(line for line in lines if "(d) rows at learner" in line)
    assert line.split()[4:] == ["10.00", "10.00", "10.00-10.00", "-88%", "-75%"]
    for comparison in COMPARISONS:
        lines = caption(comparison)
        assert "neither is a network" in lines
        assert f"{100 * comparison.low:.1f}% to {100 * comparison.high:.1f}%" in lines
        assert "interfaces" in caption(comparison, network=True)


def test_a_panel_per_transport_and_a_colour_per_layout() -> None:
    svg = plot(records_of(results_of_all())).svg()
    words = [part.text for part in ElementTree.fromstring(svg).iter() if part.text]
    assert [words.count(word) for word in ("udp", "block", "dpdk:local")] == [2, 1, 1]
    assert [words.count(layout.value) for layout in Layout] == [1] * len(Layout)
    row = "3. batch + update: 40 B step, 1 actor, at 500/s, batch 32"
    assert words.count(row) == 1, "named once, for all panels"
    assert plot([]).svg()  # of a run that was interrupted before
    base = replace(
        records_of(results_of_all())[0], op="batch", workload=BASE.with_batch(BATCHES[0])
    )
    assert ">2. batch: base case<" in plot([replace(base, subject="(c) in-network, udp")]).svg()


def test_groups_are_told_apart_by_their_names() -> None:
    """What failed, and what the cores' distance was before, is kept by name."""
    groups = groups_of([BLOCK, BUSY], quick=False)
    assert len({group.name for group in groups}) == len(groups)


@pytest.fixture
def stop() -> Iterator[Stop]:
    with Stop() as entered:
        yield entered


def test_one_round_measures_every_layout_and_leaves_nothing(stop: Stop) -> None:
    groups = [Group(place, BLOCK, SMALL, (32,)) for place in PLACES]
    groups.append(Group("network", Subject("absent", "absent:1", "block"), SMALL, (32,)))
    notes: list[str] = []
    results = measure_paper(Course(stop, 1, TINY, notes.append), groups)
    assert set(results.unavailable) == {groups[-1].name}
    assert any("skipped" in note for note in notes)
    records = records_of(results)
    cells = {(comparison_of(r), r.op, r.subject) for r in records}
    for layout in (Layout.LEARNER, Layout.STORE, Layout.NETWORK, Layout.MIRROR):
        subject = f"{layout.value}, udp block"
        assert {(2, "batch", subject), (3, "batch + update", subject)} <= cells
    memory = f"{Layout.MEMORY.value}, udp block"
    assert {(1, "fetch", memory), (0, "ping", memory)} <= cells
    assert any(op == "store" for _, op, _ in cells)
    (looks,) = results.distance.rounds  # fewer where other work had the cores
    assert {look.before for look in looks} <= {group.name for group in groups}
    assert not [record for record in records if not 0 < record.p50_us < 5e6]
    assert descendants(os.getpid()) == {}
    loads = {load.subject[:3]: load for load in loads_of(results, SMALL)}
    assert [*loads] == ["(b)", "(c)", "(d)"]
    # 32 items of 40 B with keys, probabilities and lengths; or those with a row number each.
    rows, numbers = 32 * (40 + 16), 32 * (4 + 16)
    assert rows < loads["(c)"].reply_bytes < 1.5 * rows + 300
    assert numbers < loads["(d)"].reply_bytes < 1.5 * numbers + 300
    assert loads["(c)"].followed_bytes == 0 and loads["(d)"].followed_bytes > 40
    assert [round(loads[name].round_trips) for name in ("(b)", "(c)", "(d)")] == [3, 2, 2]
    assert all(40 < load.row_bytes < 400 and load.server_s > 0 for load in loads.values())


def test_namespaces_take_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(TransportError, match="takes root"), through_server(Cores.usable()):
        pass


@pytest.mark.exhaustive
def test_roles_in_namespaces_meet_through_the_servers_host(stop: Stop) -> None:
    if os.geteuid() != 0:
        pytest.skip("network namespaces take root")
    with through_server(Cores.usable(), stop, 1500) as (places, subjects):
        links = ["ip", "-n", places.server[3], "link"]
        shown = subprocess.run(links, capture_output=True, text=True, check=True).stdout
        assert shown.count("mtu 1500") == 2
        # Asleep, not polled: roles that spin would only take turns beside the other tests.
        over = [subjects[0], *(replace(s, poll="block") for s in subjects[2:] if HAS_DPDK)]
        groups = [Group(place, subject, SMALL, (32,)) for place in PLACES for subject in over]
        results = measure_paper(Course(stop, 1, TINY), groups, places)
    assert not results.unavailable
    subjects_seen = {r.subject for r in records_of(results) if comparison_of(r) == 3}
    layouts = (Layout.LEARNER, Layout.STORE, Layout.NETWORK, Layout.MIRROR)
    assert subjects_seen == {f"{layout.value}, {one.name}" for one in over for layout in layouts}
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    assert f"drl{os.getpid()}" not in listed.stdout


def test_kernel_udp_comes_first() -> None:
    names = [subject.name for subject in subjects_of(["dpdk:local"])]
    assert names == ["udp block", "udp busy", "dpdk:local busy"]


def test_a_workload_says_its_batch() -> None:
    assert SMALL.with_batch(32) == "40 B step, 1 actor at 500/s, batch 32"
    assert SMALL.with_batch(0) == "40 B step, 1 actor at 500/s"
