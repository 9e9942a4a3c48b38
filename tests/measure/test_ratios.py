"""Statistics of paired times."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiosearch.measure.ratios import (
    CONFIDENCE,
    LEAST_GAIN,
    LOUD,
    Ratio,
    hidden,
    interval,
    loses,
    noise,
    paired_ratio,
    tail_ratio,
    wins,
)

seconds = st.floats(1e-7, 1e3)
pairs = st.lists(st.tuples(seconds, seconds), min_size=1, max_size=40)


@given(pairs)
def test_turned_round(times: list[tuple[float, float]]) -> None:
    """Who is n times as fast as the other, the other is one nth as fast as he."""
    a, b = zip(*times, strict=True)
    there, back = paired_ratio(a, b), paired_ratio(b, a)
    assert there.median == pytest.approx(1 / back.median)
    assert there.low == pytest.approx(1 / back.high)
    assert there.confidence == back.confidence


@given(pairs, st.floats(0.01, 100))
def test_units_do_not_matter(times: list[tuple[float, float]], unit: float) -> None:
    """A ratio is the same in seconds and in hours."""
    a, b = zip(*times, strict=True)
    scaled = paired_ratio([unit * each for each in a], [unit * each for each in b])
    assert scaled.median == pytest.approx(paired_ratio(a, b).median)


@given(pairs)
def test_order(times: list[tuple[float, float]]) -> None:
    """The median lies in its interval, and the order of the rounds does not matter."""
    a, b = zip(*times, strict=True)
    ratio = paired_ratio(a, b)
    assert ratio.low <= ratio.median * (1 + 1e-12)
    assert ratio.median <= ratio.high * (1 + 1e-12)
    assert paired_ratio(a[::-1], b[::-1]) == ratio


@given(pairs, st.floats(0, 1))
def test_no_two_winners(times: list[tuple[float, float]], heard: float) -> None:
    """Two cannot both be faster than each other."""
    a, b = zip(*times, strict=True)
    assert not (wins(paired_ratio(a, b), heard) and wins(paired_ratio(b, a), heard))


@given(st.lists(seconds, min_size=1, max_size=40))
def test_nobody_beats_himself(times: list[float]) -> None:
    """The same times are no gain, and no noise."""
    assert not wins(paired_ratio(times, times), noise(times, times))
    assert noise(times, times) == 0


@given(pairs, st.floats(1.1, 100))
def test_drift_is_no_gain(times: list[tuple[float, float]], drift: float) -> None:
    """What slows a whole round down slows both, and the ratio stays."""
    a, b = zip(*times, strict=True)
    factors = [drift ** (index % 3) for index in range(len(a))]
    slowed = paired_ratio(
        [x * f for x, f in zip(a, factors, strict=True)],
        [x * f for x, f in zip(b, factors, strict=True)],
    )
    assert slowed.median == pytest.approx(paired_ratio(a, b).median)


@given(pairs)
def test_noise_is_symmetric(times: list[tuple[float, float]]) -> None:
    """Noise does not ask which came first, and is no less than what the two differ by."""
    a, b = zip(*times, strict=True)
    assert noise(a, b) == pytest.approx(noise(b, a))
    differ = abs(math.log(paired_ratio(a, b).median))
    assert math.log1p(noise(a, b)) >= differ * (1 - 1e-9) - 1e-9


@pytest.mark.parametrize(
    ("again", "heard"),
    [
        ([1.0] * 9, 0.0),
        ([1.0] * 8 + [5.0], 0.0),
        ([1.0] * 7 + [5.0] * 2, 4.0),
        ([1.0] * 7 + [0.2] * 2, 4.0),
        ([1.25] * 9, 0.25),
        ([0.8] * 9, 0.25),
    ],
)
def test_noise_is_what_the_interval_leaves_room_for(again: list[float], heard: float) -> None:
    """On either side; of nine rounds, one at each end is left out."""
    assert noise([1.0] * 9, again) == pytest.approx(heard)


@given(st.integers(1, 200))
def test_interval_covers(rounds: int) -> None:
    """The interval is as narrow as its confidence allows, which six rounds can reach."""
    cut, confidence = interval(rounds)
    below = sum(math.comb(rounds, k) for k in range(cut + 1)) / 2**rounds
    assert confidence == pytest.approx(max(0.0, 1 - 2 * below))
    assert 0 <= cut < (rounds + 1) / 2
    assert (confidence >= CONFIDENCE) == (rounds >= 6)
    wider = below + math.comb(rounds, cut + 1) / 2**rounds
    assert 1 - 2 * wider < CONFIDENCE


def test_interval_holds_the_median() -> None:
    """In a thousand samples of a lopsided distribution it holds the true median in 95 %."""
    random_ = random.Random(1)
    held = 0
    for _ in range(1000):
        times = [random_.lognormvariate(0.3, 0.5) for _ in range(15)]
        ratio = paired_ratio(times, [1.0] * 15)
        held += ratio.low <= math.exp(0.3) <= ratio.high
    assert held >= 940


@pytest.mark.parametrize(
    ("ratio", "heard", "won"),
    [
        (Ratio(1.10, 1.05, 1.15, 0.95), 0.01, True),
        (Ratio(1.10, 1.05, 1.15, 0.95), 0.11, False),
        (Ratio(1 + LEAST_GAIN, 1.02, 1.04, 0.95), 0.0, False),
        (Ratio(1.10, 0.99, 1.30, 0.95), 0.01, False),
        (Ratio(0.50, 0.40, 0.60, 0.95), 0.0, False),
    ],
)
def test_wins(ratio: Ratio, heard: float, won: bool) -> None:
    """A win is above the noise, above 3 %, and its interval lies above one."""
    assert wins(ratio, heard) is won


@pytest.mark.parametrize(
    ("ratio", "heard", "doubt"),
    [
        (Ratio(1.10, 1.05, 1.15, 0.95), 0.15, True),
        (Ratio(1.10, 0.90, 1.30, 0.95), 0.15, True),
        (Ratio(1.01, 0.97, 1.06, 0.95), 0.05, False),
        (Ratio(1.01, 0.60, 1.70, 0.95), LOUD + 0.01, True),
        (Ratio(0.90, 0.60, 1.02, 0.95), LOUD + 0.01, False),
    ],
)
def test_hidden(ratio: Ratio, heard: float, doubt: bool) -> None:
    """The louder it is, the more may be a gain that is not seen to be one."""
    assert hidden(ratio, heard) is doubt


def test_no_rounds() -> None:
    """A ratio of nothing is refused."""
    with pytest.raises(ValueError, match="a round at least"):
        paired_ratio([], [])


def test_a_tail_is_what_nine_of_ten_calls_stay_below() -> None:
    """A few slow calls make a tail that the median does not see; its interval is by ranks."""
    steady, bursts = [1.0] * 200, [1.0] * 150 + [4.0] * 50
    assert paired_ratio(steady, bursts).median == 1
    ratio = tail_ratio(steady, bursts)
    assert (ratio.median, ratio.low, ratio.high) == (0.25, 0.25, 0.25)
    assert loses(ratio, 0.5)


def test_a_tail_of_few_slow_calls_is_no_loss() -> None:
    """Between 7 and 13 of 100 may be slow by chance where one in ten is."""
    ratio = tail_ratio([1.0] * 100, [1.0] * 88 + [4.0] * 12)
    assert ratio.high == 1
    assert not loses(ratio, 0.0)
