"""How sure a mean of repeats is: intervals of 95 % for means of logarithms, by Student's t."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from msgspec import Struct

T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's 97.5 % points for 1 to 30 degrees of freedom; for more, the last one is a little wide.
"""


class Interval(Struct, frozen=True):
    """A geometric mean; one value has no interval, and `low` and `high` are None then."""

    mean: float
    low: float | None = None
    high: float | None = None


def interval(values: Sequence[float]) -> Interval:
    """The geometric mean of positive values, with its 95 % interval: of 1.0 and 1.21, 1.1
    between 0.33 and 3.7."""
    # Ratios multiply: their logarithms are what adds up, and nearly normal
    logs = [math.log(value) for value in values]
    middle = statistics.fmean(logs)
    if len(logs) < 2:
        return Interval(math.exp(middle))
    # Degrees of freedom: one fewer than the values, for their mean is estimated too
    t = T95[min(len(logs) - 1, len(T95)) - 1]
    reach = t * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def ratio(base: Sequence[float], challenger: Sequence[float]) -> Interval:
    """How many times as fast as `base` the challenger is; the times of a round belong together."""
    return interval([first / second for first, second in zip(base, challenger, strict=True)])
