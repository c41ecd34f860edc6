"""The pace of a slowed environment, on a clock of the test's own."""

from __future__ import annotations

import pytest

from drlnet.envs import Pace


class World:
    """A clock that sleeping moves on, by a little more than was asked for."""

    def __init__(self, oversleeps_s: float = 0.0) -> None:
        self.now_s, self._oversleeps_s = 100.0, oversleeps_s

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds + self._oversleeps_s


@pytest.mark.parametrize("works_s", [0.0, 0.001, 0.009])
def test_what_is_overslept_does_not_add_up(works_s: float) -> None:
    world = World(oversleeps_s=0.0005)
    pace = Pace(100.0, world.clock, world.sleep)
    for _ in range(1001):
        pace.wait()
        world.now_s += works_s
    assert world.now_s - works_s == pytest.approx(100 + 10, abs=0.001)
    assert pace.late == 0


def test_late_steps_are_counted_and_not_made_up_for() -> None:
    world = World()
    pace = Pace(100.0, world.clock, world.sleep)
    pace.wait()
    world.now_s += 0.035  # 25 ms late
    pace.wait()
    assert pace.late == 1 and world.now_s == pytest.approx(100.035)
    for _ in range(3):
        pace.wait()
    assert pace.late == 1 and world.now_s == pytest.approx(100.065)


def test_without_a_pace_nothing_waits() -> None:
    world = World()
    pace = Pace(None, world.clock, world.sleep)
    for _ in range(5):
        pace.wait()
    assert world.now_s == 100.0 and not pace.holds
