"""Stages and rates, on a clock that the test moves."""

from __future__ import annotations

import pytest

from drlnet.metrics import stages
from drlnet.metrics.stages import Rates, Stages


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(stages, "perf_counter", made)
    return made


def test_what_passed_goes_into_the_stage_that_ends(clock: Clock) -> None:
    spent = Stages("env", "policy")
    for name, seconds in (("env", 1.0), ("policy", 2.0), ("other", 0.25), ("env", 4.0)):
        clock.now += seconds
        spent.ended(name)
    clock.now += 0.5  # under way
    assert spent.read() == {"stage.env_s": 5.0, "stage.policy_s": 2.0, "stage.other_s": 0.75}
    clock.now += 1.0
    spent.ended("env")
    assert sum(spent.read().values()) == clock.now - 100.0


def test_an_unknown_stage_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Stages("env").ended("evn")


def test_rates_are_between_two_looks(clock: Clock) -> None:
    rates = Rates()
    clock.now += 2.0
    assert rates.due(2.0) and not rates.due(2.1)
    assert rates.read(steps=10, waited_s=1.0) == {"steps": 5.0, "waited_s": 0.5}
    assert not rates.due(0.1)
    clock.now += 4.0
    assert rates.read(steps=30, waited_s=1.0) == {"steps": 5.0, "waited_s": 0.0}


def test_what_does_not_begin_at_zero_has_its_growth_alone_as_its_first_rate(clock: Clock) -> None:
    rates = Rates(steps=1_000_000)
    clock.now += 2.0
    assert rates.read(steps=1_000_010, waited_s=1.0) == {"steps": 5.0, "waited_s": 0.5}
