"""Is one faster than the other? Statistics of times that were taken in pairs.

The problem: times of computations are not normally distributed (a lower edge, and a long tail of
interruptions), so means and deviations mislead. Here are only ranks: the median of the ratios of
pairs, and an interval for the true median that holds for any distribution, because each ratio is
above it with probability one half, as a coin.

Seven rounds with the ratios 1.18, 1.25, 1.21, 0.97, 1.24, 1.22, 1.31: `interval(7)` is (0, 0.984),
so nothing may be left out, and the ratio is 1.22 between 0.97 and 1.31 with 98 % confidence. Its
`low` is below 1, so `wins` is False for any noise. With 21 rounds, five may be left out at either
end.

Invariants: `wins(r, n)`, `loses(r, n)` and neither exclude each other; swapping the two contenders
swaps wins and losses but for `LEAST_GAIN`, which only a gain needs. See docs/why/kernels.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

LEAST_GAIN = 0.03
"""A smaller gain is never claimed, however quiet the machine: three percent."""
LOUD = 0.2
"""Noise above it may hide any gain that its interval leaves room for."""
CONFIDENCE = 0.95
"""What the interval of a `Ratio` aims at; fewer than `LEAST_ROUNDS` cannot reach it."""

TAIL = 0.9
"""The share of calls that are no slower than what is called the tail."""
LEAST_CALLS = 60
"""With fewer calls the interval of a tail ends at the slowest call of all, whatever that met."""


class Ratio(Struct, frozen=True):
    """How many times as fast, with an interval for the median that assumes no distribution."""

    median: float
    low: float
    high: float
    confidence: float
    """The chance that an interval made like this one holds the true median."""


def paired_ratio(base: Sequence[float], challenger: Sequence[float]) -> Ratio:
    """How many times as fast as `base` the challenger is; the times of a round belong together."""
    # Logarithms: the median of an even number of ratios must not depend on which one is the base
    logs = sorted(math.log(a) - math.log(b) for a, b in zip(base, challenger, strict=True))
    if not logs:
        raise ValueError("a ratio needs a round at least")
    cut, confidence = interval(len(logs))
    middle, low, high = median(logs), logs[cut], logs[-1 - cut]
    return Ratio(math.exp(middle), math.exp(low), math.exp(high), confidence)


def interval(rounds: int) -> tuple[int, float]:
    """How many values to leave out at either end of a sorted sample, and the confidence then.

    The true median lies outside what is left when a coin that is thrown `rounds` times shows
    one side at most so many times. `interval(6)` is `(0, 0.96875)`, `interval(21)` is `(5,
    0.973)`.
    """
    cut, tail = 0, 0.5**rounds
    while True:
        # One more value left out at either end: the binomial tail grows by its next term
        wider = tail + math.comb(rounds, cut + 1) * 0.5**rounds
        if 1 - 2 * wider < CONFIDENCE:
            return cut, max(0.0, 1 - 2 * tail)
        cut, tail = cut + 1, wider


def tail_ratio(base: Sequence[float], challenger: Sequence[float]) -> Ratio:
    """How many times as fast the slow calls are: the ratio of what nine of ten calls stay below.

    Slow calls of both do not come in pairs, so each side's quantile has an interval of its own, by
    ranks, and that of the ratio is between their far ends: wider than it need be, and never
    narrower. `TAIL` of 100 calls lies between the 84th and the 96th of them.
    """
    times, others = sorted(base), sorted(challenger)
    if not times or not others:
        raise ValueError("a ratio needs a call of either side")
    least, middle, most = (times[rank] for rank in _tail_ranks(len(times)))
    best, usual, worst = (others[rank] for rank in _tail_ranks(len(others)))
    return Ratio(middle / usual, least / worst, most / best, CONFIDENCE)


def _tail_ranks(calls: int) -> tuple[int, int, int]:
    """The ranks of the `TAIL` of so many calls, between the ends of its interval."""
    middle = calls * TAIL
    # A binomial count of calls below the true quantile; two deviations of it hold 95 %.
    spread = 2 * math.sqrt(calls * TAIL * (1 - TAIL))
    ranks = (math.floor(middle - spread), math.floor(middle), math.ceil(middle + spread))
    lowest, usual, highest = (min(max(rank, 0), calls - 1) for rank in ranks)
    return lowest, usual, highest


def noise(first: Sequence[float], again: Sequence[float]) -> float:
    """How far from equal the same thing, timed twice, may seem: 0.02 is two percent, 0 not at
    all."""
    return farthest(paired_ratio(first, again))


def farthest(ratio: Ratio) -> float:
    """How far from 1 the interval of a ratio reaches, in either direction."""
    return max(ratio.high, 1 / ratio.low) - 1


def loses(ratio: Ratio, noise: float) -> bool:
    """Says whether a `Ratio` is a loss: below the noise, and hardly by chance."""
    return ratio.median < 1 / (1 + noise) and ratio.high < 1


def hidden(ratio: Ratio, noise: float) -> bool:
    """Says whether a `Ratio` that is no gain may be one all the same, on a quieter machine."""
    most = ratio.high if noise > LOUD else ratio.median
    return most > 1 + LEAST_GAIN


def wins(ratio: Ratio, noise: float) -> bool:
    """Says whether a `Ratio` is a gain: above the noise, above `LEAST_GAIN`, and hardly by
    chance."""
    return ratio.median > 1 + max(noise, LEAST_GAIN) and ratio.low > 1
