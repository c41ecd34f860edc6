"""Settings that contradict each other are refused, with a remedy that works."""

from __future__ import annotations

import pytest

from drlnet.config import load
from drlnet.errors import Deadlock

ID = "Unregistered-v0"  # has no recipe


@pytest.mark.parametrize(
    "sets",
    [
        ["replay.samples_per_insert=8", "replay.error_buffer=10"],
        ["replay.capacity=100", "replay.min_size=101"],
        ["run.max_env_steps=10"],
        # Items at every 40th step: 2,000 need 80,000 rows.
        ["algo.name=r2d2", "replay.capacity=50_000", "replay.min_size=2_000"],
        ["algo.name=r2d2", "replay.min_size=100", "run.max_env_steps=3_999"],
        # 100 whole unrolls beside those that 8 environments have begun.
        ["algo.name=pqn", "algo.unroll=16", "replay.min_size=100", "replay.capacity=1_700"],
        # The newest rows of each of 64 environments are no whole items of 80 steps yet.
        ["algo.name=r2d2", "replay.capacity=24_000", "replay.min_size=500", "actor.num_actors=8"],
        ["replay.capacity=80", "replay.min_size=1", "actor.envs_per_actor=8"],
    ],
)
def test_settings_that_would_hang_are_refused(sets: list[str]) -> None:
    with pytest.raises(Deadlock):
        load(ID, sets=sets)


def test_a_remedy_for_too_many_items_works() -> None:
    sets = ["algo.name=r2d2", "replay.capacity=50_000", "replay.min_size"]
    with pytest.raises(Deadlock, match="2000 items, one every 40 steps, need 80640 rows") as caught:
        load(ID, sets=[*sets[:2], f"{sets[2]}=2_000"])
    assert "lower replay.min_size to 1234," in caught.value.remedy
    assert load(ID, sets=[*sets[:2], f"{sets[2]}=1_234"]).replay.min_size == 1234
