"""A learner of several processes on the dashboard: its steps count once, its bytes together."""

from __future__ import annotations

import pytest
from dashboard.readings import LEARNER, client, training

from drlnet.dashboard.figures import Figures
from drlnet.dashboard.window import Window

SECONDS = 2.0


def of(*ranks: str) -> Figures:
    def reading(t: float) -> dict[str, object]:
        found = training(t)
        for name in ranks:
            own = client(name, t, "learner", LEARNER)
            found |= {**own, f"client.{name}.role": "rank"}
        return found

    return Figures(Window(reading(10.0), reading(10.0 + SECONDS), SECONDS))


def test_ranks_are_shown_and_not_counted_as_learners() -> None:
    alone, three = of(), of("rank-1", "rank-2")
    rank = three.clients["rank-1"]
    assert rank.role == "rank" and rank.learns
    assert rank.steps_per_s == alone.learner_steps_per_s == three.learner_steps_per_s
    assert rank.steps_per_s == pytest.approx(300)
    assert rank.waits == three.learner_waits
    assert [one.name for one in three.learners] == ["learner"]
    assert three.batch_bytes == pytest.approx(3 * alone.batch_bytes)
