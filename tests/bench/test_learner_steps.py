"""The benchmark of a learner's steps, small, by its command."""

from __future__ import annotations

from pathlib import Path

import pytest
from system.command import finished, lines_of_error

ROWS = ["a batch that is here", "replay.rows = server", "replay.rows = device"]


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
    ended = finished(tmp_path, "bench", "learner", "--algo", "pqn")
    cause, _ = lines_of_error(ended)
    assert "algo.name = 'pqn' has no replay with an item at every step" in cause
