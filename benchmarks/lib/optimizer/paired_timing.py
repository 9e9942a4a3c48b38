"""Two calls timed in turns in one process: how many times as fast, between which bounds."""

from __future__ import annotations

import math
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiosearch.measure.ratios import Ratio, noise, paired_ratio
from aiosearch.measure.worker.timing import settle

Call: TypeAlias = Callable[[], Any]
"""Returns when its work is done."""

SAMPLE_SECONDS = 0.002
"""Short calls are repeated until a sample takes so long."""
LEAST, MOST = 7, 201
"""Rounds: fewer than six give no interval, and more than so many teach nothing."""


@dataclass(frozen=True)
class Compared:
    """What the rounds came to."""

    base: float
    """Seconds of a call, by the median."""
    other: float
    ratio: Ratio
    """How many times as fast as the base the other is."""
    noise: float
    """How far from 1 the interval of the base against itself reaches."""
    rounds: int

    @property
    def slower(self) -> bool:
        """Whether the other is slower beyond chance and beyond the noise."""
        return self.ratio.high < 1 - self.noise

    def facts(self) -> dict[str, float]:
        """What a figure says beside the ratio."""
        return {
            "low": round(self.ratio.low, 4),
            "high": round(self.ratio.high, 4),
            "noise": round(self.noise, 4),
            "microseconds": round(self.other * 1e6, 2),
            "compared_microseconds": round(self.base * 1e6, 2),
            "rounds": self.rounds,
        }


def compared(base: Call, other: Call, seconds: float, seed: int = 0) -> Compared:
    """Times base, other and the base again in each round, in an order that is drawn."""
    calls = [(base, repeats(base)), (other, repeats(other))]
    order = [0, 1, 2]
    rng = random.Random(seed)
    rounds: list[tuple[float, float, float]] = []
    end = time.perf_counter() + seconds
    while len(rounds) < LEAST or (len(rounds) < MOST and time.perf_counter() < end):
        rng.shuffle(order)
        taken = {turn: sample(*calls[turn % 2]) for turn in order}
        rounds.append((taken[0], taken[1], taken[2]))
    return judged(rounds)


def judged(rounds: list[tuple[float, float, float]]) -> Compared:
    """The statistics of rounds; the base's time in a round is the mean of its two."""
    first, others, again = (list(column) for column in zip(*rounds, strict=True))
    both = [math.sqrt(one * two) for one, two in zip(first, again, strict=True)]
    return Compared(
        statistics.median(both),
        statistics.median(others),
        paired_ratio(both, others),
        noise(first, again),
        len(rounds),
    )


def repeats(call: Call, seconds: float = SAMPLE_SECONDS) -> int:
    """How many calls make a sample, of one that is compiled and warm after this."""
    call()
    return max(1, math.ceil(seconds / min(timed(call, 1) for _ in range(3))))


def sample(call: Call, count: int) -> float:
    """Seconds of a call; others go first that do not count, for what ran before leaves traces."""
    settle(call)
    return timed(call, count)


def timed(call: Call, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count
