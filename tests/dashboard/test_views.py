"""The views: readings in, lines that fit 80 columns out."""

from __future__ import annotations

import io
import json
import math
from dataclasses import dataclass
from typing import Any

import pytest
from rich.console import Console

from drlnet.dashboard import ProgressView, StatsView, as_json
from drlnet.dashboard import reading as read


@dataclass
class FakeHistogram:
    count: int = 10
    mean_us: float = 5.0
    max_us: float = 123_456.0

    def percentile_us(self, q: float) -> float:
        return 1000.0 * q


def reading(steps: int) -> dict[str, Any]:
    return {
        "server.uptime_s": 83.0,
        "server.clients": 3,
        "server.append.handling": FakeHistogram(count=steps),
        "server.append.queueing": FakeHistogram(count=steps),
        "server.update_priorities.handling": FakeHistogram(count=123_456_789),
        "server.update_priorities.queueing": FakeHistogram(),
        "server.lease.handling": FakeHistogram(count=0),
        "table.replay.live_items": 49_000,
        "table.replay.capacity": 50_000,
        "table.replay.env_steps": steps,
        "client.actor-0.env_steps": steps,
        "client.actor-0.env_steps_per_s": 1234.5,
        "client.actor-0.return_mean": 100.0,
        "client.actor-1.env_steps": steps,
        "client.actor-1.return_mean": math.nan,
        "client.learner.learner_steps": 77,
        "client.learner.learner_steps_per_s": 300.0,
        "client.learner.loss": 0.01234,
        "client.learner.eval_return": 480.0,
        "client.learner.sample_wait_share": 0.25,
    }


def text_of(what: Any, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, record=True)
    console.print(what)
    return console.export_text()


def test_stats_fit_80_columns_and_show_rates() -> None:
    view = StatsView("udp://127.0.0.1:7447", file=io.StringIO())
    before, after = reading(1_000), reading(3_000)
    text = text_of(view.render(after, read.rates(before, after, 2.0)))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    assert "append" in text
    assert "1,000" in text  # appends per second
    assert "lease" not in text  # nothing happened
    assert "update priorities" in text
    assert "learner" in text


def test_progress_panel_fits_80_columns() -> None:
    view = ProgressView("drlnet run CartPole-v1 · seed 0", goal=475, file=io.StringIO())
    text = text_of(view.panel({**reading(1_234_567_890), "run.phase": "training"}))
    assert max(map(len, text.splitlines())) <= 80
    assert "480.0 of 475 greedy" in text
    assert "100.0 exploring" in text  # actors without an episode yet do not count


def test_progress_lines_go_to_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    file = io.StringIO()
    with ProgressView("x", goal=None, file=file) as view:
        view.show({"run.phase": "starting"})
        view.show({**reading(5), "run.phase": "training"})
        view.show({**reading(6), "run.phase": "training"})  # too soon for another line
    lines = file.getvalue().splitlines()
    assert len(lines) == 2
    assert "learner_steps 77" in lines[1]
    assert "\x1b" not in file.getvalue()


def test_a_server_that_is_gone_is_said() -> None:
    file = io.StringIO()
    with StatsView("udp://x:1", file=file) as view:
        view.show(reading(1), 1.0)
        view.gone("no answer within 5 s")
    assert "udp://x:1 does not answer: no answer within 5 s" in file.getvalue()


def test_json_has_percentiles_and_no_nan() -> None:
    values = json.loads(as_json(reading(10)))
    assert values["server.append.handling"]["p99_us"] == 990.0
    assert values["client.actor-1.return_mean"] is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (12.34, "12.3"),
        (1234, "1,234"),
        (12_345, "12.3k"),
        (123_456_789, "123.5M"),
        (math.nan, "-"),
        (5e10, "50.0G"),
    ],
)
def test_compact(value: float, expected: str) -> None:
    assert read.compact(value) == expected


def test_durations_and_sparklines() -> None:
    assert read.duration(12.34) == "12.3 us"
    assert read.duration(4_560) == "4.56 ms"
    assert read.duration(1.23e6) == "1.23 s"
    assert read.sparkline([1, 2, 3, math.nan], 8) == "▁▄█"
    assert read.sparkline([], 8) == ""
    assert read.clock(83) == "1:23"
