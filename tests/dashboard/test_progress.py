"""The progress of a run, and how figures are written."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pytest
from dashboard.readings import spread
from rich.console import Console

from drlnet.dashboard import ProgressView, units


def reading(steps: int) -> dict[str, Any]:
    return {
        "server.uptime_s": 83.0,
        "server.clients": 3,
        "server.append.handling": spread(3.0, steps),
        "server.append.queueing": spread(3.0, steps),
        "server.update_priorities.handling": spread(3.0, 1000),
        "server.update_priorities.queueing": spread(1.0, 10),
        "server.lease.handling": spread(1.0, 0),
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


def test_a_full_disk_under_its_lines_ends_nothing() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        view = ProgressView("x", goal=None, file=io.TextIOWrapper(full, write_through=True))
        view.show({"run.phase": "starting"})
        view.show({**reading(5), "run.phase": "training"})


def test_what_training_waits_for_is_its_phase() -> None:
    file = io.StringIO()
    command = "drlnet actor CartPole-v1"
    with ProgressView("x", goal=None, file=file, min_size=1000, actor_command=command) as view:
        phase: dict[str, Any] = {"run.phase": "training"}
        view.show({**phase, "peer.learner.transport": "udp"})
        assert "none yet; start one:" in text_of(view.panel(phase)) and command in text_of(
            view.panel(phase)
        )
        phase["peer.actor-0-7.transport"] = "udp"
        view.show({**phase, "table.replay.live_items": 412})
        view.show({**phase, "table.replay.live_items": 1000})
        view.show({**phase, "client.learner.learner_steps": 5, "table.replay.live_items": 990})
    lines = [line.split("s ", 1)[1].strip() for line in file.getvalue().splitlines()]
    assert lines == [
        f"waiting for actors  start one: {command}",
        "filling the replay 412 of 1,000",
        "training",
    ]


def test_an_evaluation_says_how_far_it_is_and_shows_no_rates() -> None:
    file = io.StringIO()
    evaluating = {**reading(5), "run.phase": "evaluating", "run.progress": "37 of 100"}
    with ProgressView("x", goal=475, file=file) as view:
        view.show(evaluating)
        text = text_of(view.panel(evaluating))
    assert file.getvalue().strip().endswith("s evaluating 37 of 100")
    assert "evaluating 37 of 100" in text and "10 of actors   77 of the learner" in text
    assert "steps/s" not in text and "playing" not in text


def test_of_two_learners_a_run_shows_its_own() -> None:
    own = {"run": "mine", "learner_steps": 12, "learner_steps_per_s": 34.0, "eval_return": 56.0}
    both = {
        **{f"client.learner.{key}": value for key, value in {**own, "run": "other"}.items()},
        "client.learner.learner_steps": 7369,
        **{f"client.learner-2.{key}": value for key, value in own.items()},
        "run.phase": "training",
    }
    file = io.StringIO()
    with ProgressView("x", goal=None, file=file, run="mine") as view:
        view.show(both)
        panel = text_of(view.panel(both))
    assert "34 steps/s   12 steps" in panel and "56.0 greedy" in panel
    assert "learner_steps 12 " in file.getvalue() and "7,369" not in panel + file.getvalue()


def test_the_last_line_names_the_command_that_tells_more() -> None:
    view = ProgressView("x", goal=None, file=io.StringIO(), hint="drlnet stats runs/mine")
    *_, last, _border = text_of(view.panel(reading(5))).splitlines()
    assert "more" in last and "drlnet stats runs/mine" in last


def test_shards_that_were_lost_are_counted() -> None:
    file = io.StringIO()
    less = {**reading(5), "run.phase": "training", "server.shards_lost": 2}
    with ProgressView("x", goal=None, file=file) as view:
        view.show(less)
        assert "shards lost 2" in text_of(view.panel(less))
    assert "shards lost 2" in file.getvalue()


def test_actors_that_were_restarted_are_counted() -> None:
    file = io.StringIO()
    again = {**reading(5), "run.phase": "training", "run.actor_restarts": 3}
    with ProgressView("x", goal=None, file=file) as view:
        view.show(again)
        assert "restarts 3" in text_of(view.panel(again))
    assert "actor restarts 3" in file.getvalue()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (12.34, "12.3"),
        (99.96, "100"),
        (1234, "1,234"),
        (9999.7, "10.0k"),
        (12_345, "12.3k"),
        (999_960, "1.00M"),
        (123_456_789, "123M"),
        (math.nan, "-"),
        (5e10, "50.0G"),
    ],
)
def test_compact(value: float, expected: str) -> None:
    assert units.compact(value) == expected


def test_no_figure_is_wider_than_its_column() -> None:
    for exponent in range(-30, 150):
        for digit in (1.0, 9.994, 9.996, 4.4444):
            value = digit * 10 ** (exponent / 10)
            assert len(units.compact(value)) <= (5 if value < 1e15 else 99), value
            if value < 999e6:  # 999 s
                assert len(units.duration(value)) <= 7, value
            if value < 999e12:
                assert len(units.size(value)) <= 7, value


def test_durations_sizes_and_shares() -> None:
    assert units.duration(12.34) == "12.3 us"
    assert units.duration(4_560) == "4.56 ms"
    assert units.duration(1.23e6) == "1.23 s"
    assert units.size(1.5e6) == "1.50 MB"
    assert units.size(12) == "12 B"
    assert units.percent(0.384) == "38%"
    assert units.small_percent(0.0123) == "1.2%"
    assert units.clock(83) == "1:23"
    assert units.clock(4000) == "1:06:40"


def test_sparklines_and_graphs() -> None:
    assert units.sparkline([1, 2, 3, math.nan], 8) == "▁▄█"
    assert units.sparkline([], 8) == ""
    assert units.graph([0, 4, 8, math.nan], 6, 1) == ["   ▄█ "]
    assert units.graph([4, 8, 16], 3, 2) == ["  █", "▄██"]
    assert units.graph([], 4, 1) == ["    "]
