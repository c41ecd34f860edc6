"""The screen in every size: nothing wraps, nothing overflows, nothing is missing without a word."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import pytest
from dashboard.readings import LEARNER, client, training
from rich.console import Console, Group

from drlnet.dashboard import Lines, Tables, picture
from drlnet.dashboard.bottleneck import RULES, find_bottleneck
from drlnet.dashboard.history import History
from drlnet.dashboard.layout import compose, everything
from drlnet.dashboard.panels import latency, replay, server, stages, throughput
from drlnet.dashboard.panels.clients import SORTS
from drlnet.dashboard.panels.latency import operations
from drlnet.dashboard.scene import Scene
from drlnet.metrics.shards import add_up

SIZES = [
    (80, 24),
    (120, 40),
    (200, 50),
    (20, 10),
    (60, 14),
    (100, 30),
    (160, 24),
    (300, 90),
    (7, 3),
]
NAMED = SIZES[:3]


def scene(seconds: int = 30, **changes: object) -> Scene:
    history = History()
    for t in range(seconds):
        figures = history.push(training(100.0 + t), float(t))
    made = Scene("udp://127.0.0.1:7447", figures, find_bottleneck(figures), history.trends)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def text(shown: Scene, width: int, height: int) -> str:
    """What a terminal of that size shows; checked to be exactly that."""
    lines = compose(shown, width, height)
    assert len(lines) == height
    assert max(line.cell_len for line in lines) <= width
    console = Console(file=io.StringIO(), width=width, height=height, record=True)
    console.print(Group(*lines))
    printed = console.export_text()
    assert len(printed.splitlines()) == height  # rich wrapped nothing either
    return printed


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"help": True},
        {"operation": "sample"},
        {"lost": "no answer within 2 s " * 10},
        {"page": 1, "sort": "cpu", "paused": True},
    ],
    ids=["plain", "help", "histogram", "lost", "page"],
)
def test_it_fits(width: int, height: int, changes: dict[str, object]) -> None:
    text(scene(**changes), width, height)


def test_panels_side_by_side_are_whole_at_160_columns() -> None:
    half = (160 - 2) // 2
    for panel in (throughput, latency, stages, replay, server):
        assert max(line.cell_len for line in panel.draw(scene(), half, 20)) <= half, panel.TITLE


@pytest.mark.parametrize(
    "shares",
    [[0.05, 0.8, 0.07, 0.02, 0.06, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0], [1 / 6] * 6],
    ids=["mixed", "all", "even"],
)
@pytest.mark.parametrize("width", range(79, 201))
def test_the_legend_of_the_stages_is_whole(width: int, shares: list[float]) -> None:
    names = ("sample", "learn", "update", "publish", "evaluate", "other")
    history = History()
    for t in range(3):
        spent = dict(zip(names, shares, strict=True))
        learner = client("learner", 100.0 + t, "learner", spent)
        figures = history.push(training(100.0 + t) | learner, float(t))
    made = Scene("udp://x:1", figures, find_bottleneck(figures), history.trends)
    legend = stages.draw(made, width, 2)[1]
    assert legend.cell_len <= width
    assert re.fullmatch(r"(\s+.\w+ +\d+%){6}", legend.plain), legend.plain


@pytest.mark.parametrize(("width", "height"), NAMED)
def test_everything_is_on_some_page(width: int, height: int) -> None:
    pages = "".join(text(scene(page=page), width, height) for page in range(2))
    for words in (
        *("env steps/s", "items/s in", "draws/s", "learner st/s", "bytes in", "bytes out"),
        *("p50", "p99.9", "max", "wait50", "work50", "append", "sample", "update"),
        *("30.0k", "effective", "versions old", "samples_limit", "stale 0.1%", "mass 12.3k"),
        *("learn 80%", "wait  5%", "eval  6%", "actor-0-4711", "live", "456 MB", "90%", "187.3"),
        *("resent", "lag", "busy  45%", "dpdk:local", "it sets the pace", "try: "),
    ):
        assert words in pages, words


def test_a_small_terminal_shows_the_bottleneck_first() -> None:
    shown = text(scene(), 20, 10)
    assert "learner learns 80%\nof its time: it sets\nthe pace" in shown
    assert "env steps/s    30.0k" in shown


def test_a_large_terminal_shows_more() -> None:
    small, large = text(scene(), 80, 24), text(scene(), 200, 50)
    assert "histogram of sample" in large and "histogram" not in small
    assert "page 1 of 2" in small and "page" not in large
    assert len(large.split()) > 1.5 * len(small.split())


def test_columns_do_not_move_when_figures_change() -> None:
    def places(shown: str) -> list[tuple[int, int]]:
        lines = shown.splitlines()
        heads = [line for line in lines if line.startswith(("operation", "client "))]
        return [
            (lines.index(line), line.index("p99" if "p99" in line else "return")) for line in heads
        ]

    assert places(text(scene(3), 80, 24)) == places(text(scene(29), 80, 24))
    bars = [text(scene(n), 80, 24).splitlines()[5].index("items/s") for n in (2, 30)]
    assert bars[0] == bars[1]


def test_of_one_reading_there_are_no_rates_yet() -> None:
    assert "second reading" in text(scene(1), 80, 24)


@pytest.mark.parametrize("missing", sorted({key.rpartition(".")[2] for key in training(1.0)}))
def test_an_older_server_shows_a_dash(missing: str) -> None:
    history = History()
    for t in range(2):
        reading = {k: v for k, v in training(100.0 + t).items() if not k.endswith(missing)}
        figures = history.push(reading, float(t))
    for page in range(2):
        made = Scene("udp://x:1", figures, find_bottleneck(figures), history.trends, page=page)
        assert "nan" not in text(made, 80, 24).replace("finance", "")
        assert "nan" not in text(made, 200, 50)


def test_an_empty_reading_shows_dashes() -> None:
    history = History()
    for t in range(2):
        figures = history.push({}, float(t))
    made = Scene("udp://x:1", figures, find_bottleneck(figures), history.trends)
    for size in SIZES:
        text(made, *size)
    assert "no client" in text(made, 80, 24)


def test_a_client_that_left_is_gone_and_then_forgotten() -> None:
    history = History()
    history.push(training(100.0), 0.0)
    left = {k: v for k, v in training(101.0).items() if ".actor-1-4712." not in k}
    figures = history.push(left, 1.0)
    shown = Scene("udp://x:1", figures, find_bottleneck(figures), history.trends)
    (row,) = [line for line in text(shown, 200, 50).splitlines() if line.startswith("actor-1")]
    assert " gone " in row
    assert not history.push(left, 60.0).gone


def test_a_silent_client_is_slow() -> None:
    reading = training(100.0) | {"peer.learner.silent_s": 5.0}
    history = History()
    history.push(training(99.0), 0.0)
    figures = history.push(reading, 1.0)
    shown = Scene("udp://x:1", figures, find_bottleneck(figures), history.trends)
    (row,) = [line for line in text(shown, 200, 50).splitlines() if line.startswith("learner   ")][
        -1:
    ]
    assert " slow " in row


def test_every_order_of_the_clients_has_all_of_them() -> None:
    for order in SORTS:
        shown = text(scene(sort=order), 200, 50)
        rows = [line.split()[0] for line in shown.splitlines() if " live " in line]
        assert sorted(rows) == ["actor-0-4711", "actor-1-4712", "learner", "stats"]


def test_another_server_at_the_same_address_begins_anew() -> None:
    history = History()
    history.push(training(500.0), 0.0)
    figures = history.push(training(1.0), 1.0)
    assert figures.window.before is None


def test_what_a_lost_shard_takes_along_is_not_growth() -> None:
    def shard(t: float) -> dict[str, float]:
        return {
            "server.uptime_s": t,
            "table.replay.capacity": 500,
            "table.replay.env_steps": 1000 * t,
        }

    history = History()
    history.push(add_up([shard(100.0), shard(100.0)]), 0.0)
    assert math.isnan(history.push(add_up([shard(101.0)]), 1.0).env_steps_per_s)
    lost = {"server.shards_lost": 1}
    assert history.push(add_up([shard(102.0)]) | lost, 2.0).env_steps_per_s == 1000.0


def test_the_busiest_shard_need_not_be_the_one_that_was_busy_the_longest() -> None:
    history = History()
    for t, busy_s in enumerate(((1000.0, 5.0), (1000.25, 5.75))):
        figures = history.push(add_up([{"server.busy_s": each} for each in busy_s]), float(t))
    assert figures.server_busy == 0.75


@pytest.mark.parametrize("seen_before", [False, True])
def test_a_learner_that_goes_on_from_earlier_steps_begins_with_the_rate_it_tells(
    seen_before: bool,
) -> None:
    history = History()
    ended = training(500.0)
    if not seen_before:
        ended = {k: v for k, v in ended.items() if ".learner." not in k}
    history.push(ended, 0.0)
    begun = training(501.0) | client("learner", 2.0, "learner", LEARNER)
    begun["client.learner.learner_steps"] = 149_000
    assert history.push(begun, 1.0).learner_steps_per_s == 300.0


def test_lines_for_a_pipe_fit_a_terminal() -> None:
    file = io.StringIO()
    lines = Lines("udp://127.0.0.1:7447", file)
    for t in range(25):
        lines.show(training(1e6 + t), float(t))
    printed = file.getvalue().splitlines()
    longest = max(len(rule.name) for rule in RULES)
    assert len(printed) == 25 + 2  # the heading again after 20 lines
    for line in printed:
        assert len(line) - len(line.split()[-1]) + longest <= 80, line


def test_everything_below_each_other_for_a_pipe() -> None:
    shown = scene()
    lines = everything(shown, 100)
    assert max(line.cell_len for line in lines) <= 100
    words = "\n".join(line.plain for line in lines)
    for operation in operations(shown.figures):
        assert operation.partition("_")[0] in words


def test_a_pipe_gets_every_column_whatever_the_terminal_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    file = io.StringIO()
    tables = Tables("udp://127.0.0.1:7447", file)
    for t in range(2):
        tables.show(training(100.0 + t), float(t))
    tables.close()
    printed = file.getvalue()
    for words in ("p99.9", "work99", "params", "window", "gpu", "pid", "4711"):
        assert words in printed, words
    assert "…" not in printed


def test_the_header_counts_actors_that_were_restarted() -> None:
    assert "restarts" not in text(scene(), 80, 24)
    figures = History().push({**training(100.0), "client.run.actor_restarts": 2}, 0.0)
    made = Scene("udp://127.0.0.1:7447", figures, find_bottleneck(figures), {})
    assert "actor restarts 2" in text(made, 80, 24).splitlines()[0]


def test_the_header_counts_shards_that_were_lost() -> None:
    figures = History().push({**training(100.0), "server.shards_lost": 1}, 0.0)
    made = Scene("udp://127.0.0.1:7447", figures, find_bottleneck(figures), {})
    assert "shards lost 1" in text(made, 80, 24).splitlines()[0]


def test_without_colour_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    file = io.StringIO()
    console = Console(file=file, width=80, height=24, force_terminal=True)
    console.print(Group(*compose(scene(), 80, 24)))
    assert "\x1b[3" not in file.getvalue()  # no foreground colour
    for sign in ("░wait", "█learn", "▓update", "▚publish", "▒eval"):
        assert sign in text(scene(), 80, 24)


def test_a_picture_of_readings(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "stats.svg"
    picture([training(100.0 + t) for t in range(5)], path, 120, 40)
    svg = path.read_text(encoding="utf-8")
    assert svg.startswith("<svg") and "actor-0-4711" in svg
    picture(training(100.0), path)
    assert "measuring" in path.read_text(encoding="utf-8")


def test_a_mirror_has_a_line_and_what_has_none_has_not() -> None:
    def lines(mirrored: bool) -> list[str]:
        history = History()
        for t in range(3):
            more = {
                "client.learner.mirror.rows": 10_000.0 * t,
                "client.learner.mirror.rows_behind": 1234,
                "client.learner.mirror.memory_bytes": 7 * 10**9,
                "client.learner.mirror.drawn": 990.0 * t,
                "client.learner.mirror.replaced": 10.0 * t,
                "client.learner.mirror.wait_s": 0.125 * t,
            }
            figures = history.push(training(100.0 + t) | (more if mirrored else {}), float(t))
        made = Scene("udp://x:1", figures, find_bottleneck(figures), history.trends)
        assert replay.sizes(made) == [3 + mirrored]
        return [line.plain for line in replay.draw(made, 79, 3 + mirrored)]

    assert len(lines(False)) == 3
    last = lines(True)[-1]
    assert re.fullmatch(
        r"mirror +10\.0k rows/s +1,234 behind  waits +1[23]%  7\.00 GB  replaced 1\.0%", last
    ), last
