"""Is one faster than the other? Statistics of times that were taken in pairs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

LEAST_GAIN = 0.03
"""A smaller gain is never claimed, however quiet the machine."""
LOUD = 0.2
"""A noise above it may hide any gain that its interval leaves room for."""
CONFIDENCE = 0.95
"""What the interval of a ratio aims at; fewer than six rounds cannot reach it."""


class Ratio(Struct, frozen=True):
    """How many times as fast, with an interval for the median that assumes no distribution."""

    median: float
    low: float
    high: float
    confidence: float
    """The chance that an interval made like this one holds the true median."""


def paired_ratio(base: Sequence[float], other: Sequence[float]) -> Ratio:
    """How many times as fast as `base` the other is; the times of a round belong together."""
    logs = sorted(math.log(a) - math.log(b) for a, b in zip(base, other, strict=True))
    if not logs:
        raise ValueError("a ratio needs a round at least")
    cut, confidence = interval(len(logs))
    middle, low, high = median(logs), logs[cut], logs[-1 - cut]
    return Ratio(math.exp(middle), math.exp(low), math.exp(high), confidence)


def interval(rounds: int) -> tuple[int, float]:
    """How many values to leave out at either end of a sorted sample, and the confidence then.

    The true median lies outside what is left when a coin that is thrown `rounds` times shows one
    side at most so many times.
    """
    cut, tail = 0, 0.5**rounds
    while True:
        wider = tail + math.comb(rounds, cut + 1) * 0.5**rounds
        if 1 - 2 * wider < CONFIDENCE:
            return cut, max(0.0, 1 - 2 * tail)
        cut, tail = cut + 1, wider


def noise(first: Sequence[float], again: Sequence[float]) -> float:
    """How far from equal the same thing, timed twice, may seem: a fraction, 0 for not at all."""
    ratio = paired_ratio(first, again)
    return max(ratio.high, 1 / ratio.low) - 1


def loses(ratio: Ratio, noise: float) -> bool:
    """Says whether a ratio is a loss: below the noise, and hardly by chance."""
    return ratio.median < 1 / (1 + noise) and ratio.high < 1


def hidden(ratio: Ratio, noise: float) -> bool:
    """Says whether a ratio that is no gain may be one all the same, on a quieter machine."""
    most = ratio.high if noise > LOUD else ratio.median
    return most > 1 + LEAST_GAIN


def wins(ratio: Ratio, noise: float) -> bool:
    """Says whether a ratio is a gain: above the noise, above 3 %, and hardly by chance."""
    return ratio.median > 1 + max(noise, LEAST_GAIN) and ratio.low > 1
