"""Means and intervals of repeats."""

from __future__ import annotations

import math
from random import Random

import pytest

from aiosearch.lab.intervals import Interval, interval, ratio


def test_one_value_has_no_interval() -> None:
    assert interval([2.0]) == Interval(2.0)


def test_equal_values_have_an_interval_of_no_width() -> None:
    found = interval([3.0, 3.0, 3.0])
    assert found.low == found.mean == found.high == pytest.approx(3.0)


def test_two_values_have_the_interval_of_students_t() -> None:
    found = interval([1.0, math.e])
    assert found.mean == pytest.approx(math.exp(0.5))
    assert found.high == pytest.approx(math.exp(0.5 + 12.706 * 0.5))


def test_a_ratio_compares_round_by_round_so_that_a_busy_one_does_not_count() -> None:
    found = ratio([1.0, 10.0, 2.0], [0.5, 5.0, 1.0])
    assert found.low == found.mean == found.high == pytest.approx(2.0)


def test_the_interval_holds_the_true_mean_nineteen_times_in_twenty() -> None:
    random = Random(7)
    held = 0
    for _ in range(2_000):
        found = interval([math.exp(random.gauss(0.3, 0.2)) for _ in range(5)])
        assert found.low is not None
        assert found.high is not None
        held += found.low <= math.exp(0.3) <= found.high
    assert held / 2_000 == pytest.approx(0.95, abs=0.015)
