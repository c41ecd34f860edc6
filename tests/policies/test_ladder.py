"""Exploration ladders, value by value."""

from __future__ import annotations

import numpy as np
import pytest

from drlnet.policies.ladder import epsilon_ladder, radical_inverse


def test_radical_inverse_mirrors_binary_digits() -> None:
    expected = [0, 1 / 2, 1 / 4, 3 / 4, 1 / 8, 5 / 8, 3 / 8, 7 / 8, 1 / 16]
    assert radical_inverse(range(9)).tolist() == expected


def test_any_prefix_covers_evenly() -> None:
    for count in range(1, 65):
        points = np.sort(radical_inverse(range(count)))
        assert np.diff(points, append=1.0).max() <= 2 / count


def test_radical_ladder() -> None:
    assert epsilon_ladder([0, 1, 2]) == pytest.approx([0.4, 0.4**4.5, 0.4**2.75])


def test_radical_ladder_does_not_depend_on_the_others() -> None:
    assert epsilon_ladder([5])[0] == epsilon_ladder([3, 5, 9])[1]


def test_apex_ladder_is_the_papers() -> None:
    total, base, exponent = 8, 0.4, 7.0
    expected = [base ** (1 + i / (total - 1) * exponent) for i in range(total)]
    assert epsilon_ladder(range(total), ladder="apex", total=total) == pytest.approx(expected)


def test_apex_ladder_of_one() -> None:
    assert epsilon_ladder([0], ladder="apex", total=1) == pytest.approx([0.4])
