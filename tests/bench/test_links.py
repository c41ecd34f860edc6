"""What links of other rates carry: of figures that are easily computed by hand."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from drlnet.bench.paper import links
from drlnet.bench.paper.counted import Counted, counted
from drlnet.bench.paper.links import Load, load_of

ROWS = Load(  # a batch of 512: 16 MB over the link, two round trips of 50 us, 1 ms of the server
    "(c), udp", 512, reply_bytes=16e6, request_bytes=8000, round_trips=2, server_s=1e-3,
    row_bytes=7000, row_s=10e-6, followed_bytes=0, followed_s=0, ping_s=50e-6, cycle_s=2e-3,
)  # fmt: skip
MIRRORED = replace(
    ROWS, subject="(d), udp", reply_bytes=20e3, server_s=5e-5, followed_bytes=7000, followed_s=5e-6,
    cycle_s=1e-3,
)  # fmt: skip


def test_bytes_and_round_trips_bound_a_learner_until_its_own_time_does() -> None:
    assert ROWS.per_second(1) == pytest.approx(1 / (16e6 * 8 / 1e9 + 1e-4))
    assert MIRRORED.per_second(1) == pytest.approx(1 / ((20e3 + 64 * 7000) * 8 / 1e9 + 1e-4))
    assert ROWS.per_second(100) == 500
    assert MIRRORED.per_second(10) == MIRRORED.per_second(100) == 1000


def test_learners_are_as_many_as_link_and_thread_carry() -> None:
    # 19 batches a second each: 304 MB/s of rows, or 0.38 MB/s of numbers and 8.5 of rows for each
    # learner there is.
    assert ROWS.carried(1) == (0, "link")
    assert ROWS.carried(10) == (4, "link")
    # A learner takes 19 ms and the 12 ms of its 1,216 rows, of each second.
    assert ROWS.carried(100) == (32, "server")
    learners, limit = replace(MIRRORED, row_s=0, followed_s=0).carried(10)
    assert limit == "link"
    sent = [n * 19 * 20e3 + n * n * 1216 * 7000 for n in (learners, learners + 1)]
    assert sent[0] <= 1.25e9 < sent[1]
    assert ROWS.actors(10) == pytest.approx(10 * 1216 / 250)


def test_a_load_is_made_of_the_servers_counters() -> None:
    before = {
        "peer.learner.bytes_sent": 100.0,
        "peer.learner.bytes_received": 10.0,
        "peer.rows_learner.bytes_sent": 1000.0,
        "peer.rows_learner.bytes_received": 5.0,
        "peer.reader.bytes_received": 3.0,
        "transport.udp.bytes_received": 50.0,
        "transport.dpdk.bytes_received": 8.0,
        "table.t.env_steps": 1.0,
        "server.sample.handling": 2.0,
        "server.update_priorities.handling": 2.0,
        "server.busy_s": 1.0,
    }
    one = counted(before, "learner", "reader", "t")
    assert one == Counted(100, 15, 1000, 55, 4, 1, 1.0)
    assert one.appended == 40
    cycles = Counted(2000, 300, 50_000, 7300, 20, 10, 0.03, calls=10)
    resting = Counted(rows=100, busy_s=0.1)
    mirroring = Counted(followed=500_000, rows=100, busy_s=0.15)
    found = load_of("(d)", 32, cycles, resting, mirroring, (1e-5, 1e-3))
    assert (found.reply_bytes, found.request_bytes, found.round_trips) == (200, 30, 2)
    assert (found.row_bytes, found.followed_bytes) == (700, 5000)
    assert found.row_s == pytest.approx(1e-3) and found.followed_s == pytest.approx(0.5e-3)
    assert found.server_s == pytest.approx((0.03 - 10 * 1.5e-3) / 10)
    plain = load_of("(c)", 32, cycles, resting, None, (1e-5, 1e-3))
    assert (plain.followed_bytes, plain.followed_s) == (0, 0)


def test_it_is_shown_and_drawn() -> None:
    loads = [ROWS, MIRRORED, replace(MIRRORED, batch=32)]
    file = io.StringIO()
    links.show(loads, file=file)
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    line = next(line for line in text.splitlines() if line.startswith("(c)"))
    assert "udp, batch 32" in text
    assert line.split() == ["(c)", "16,000,000", "1", "8", "0", "0", "link"]
    svg = links.plot(loads).svg()
    for words in ("batch 512", "batch 32", "(c), udp", "(d), udp", "Gbit/s"):
        assert f">{words}<" in svg
    assert links.plot([]).svg()
    links_of = MIRRORED.to_dict()["links"]
    assert isinstance(links_of, dict)
    assert links_of["1"]["batches_per_second"] == MIRRORED.per_second(1)
