"""The benchmark of a learner's steps, small, by its command."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from system.command import finished, lines_of_error

from drlnet.bench import learner_steps
from drlnet.bench.engine import Course
from drlnet.bench.processes import WorkerFailed
from drlnet.config import Config
from drlnet.errors import ConfigError
from drlnet.launch.signals import Stop

ROWS = ["a batch that is here", "replay.rows = server", "replay.rows = device"]


@pytest.mark.fast
def test_a_learner_has_its_seconds_and_ends_where_it_is_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = MagicMock()
    learner = workers.of.return_value
    learner.call.side_effect = [WorkerFailed("no answer"), (50.0, 0.25)]
    monkeypatch.setattr(learner_steps, "Workers", lambda stop: nullcontext(workers))
    monkeypatch.setattr(learner_steps, "served", lambda *_: nullcontext((None, ("udp://",))))
    with Stop() as stop:
        measured = learner_steps.measure_learner(
            Course(stop, 1), Config(), ["device"], 1000.0, lambda line: None
        )
    assert all(call.kwargs["deadline_s"] > 1000 for call in learner.call.mock_calls)
    workers.end.assert_called_once_with("learner")
    assert [one.subject for one in measured.records] == ["replay.rows = device"]
    assert [*measured.more["unavailable"]] == [learner_steps.RESIDENT]


@pytest.mark.slow
def test_every_place_of_the_rows_is_measured(tmp_path: Path) -> None:
    small = ["replay.capacity=4000", "replay.min_size=2000", "replay.batch_size=16"]
    sets = [word for one in small for word in ("--set", one)]
    words = ["bench", "learner", "--env", "MinAtar/Breakout-v1", "--rows", "server,device"]
    turns = ["--rounds", "2", "--seconds", "0.5", "--json"]
    ended = finished(tmp_path, *words, *sets, *turns, deadline_s=180)
    told = ended.last_json()
    assert {one["subject"] for one in told["records"]} == {*ROWS}
    assert all(one["per_second"] > 0 and one["rounds"] == 2 for one in told["records"])
    assert told["shares"].keys() == set(ROWS[1:])


def test_a_queue_is_refused(tmp_path: Path) -> None:
    ended = finished(tmp_path, "bench", "learner", "--algo", "pqn", error=ConfigError)
    cause, _ = lines_of_error(ended)
    assert "algo.name = 'pqn' has no replay with an item at every step" in cause
