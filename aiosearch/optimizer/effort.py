"""`Effort` and `Budget`: how many candidates, rounds and seconds an optimization may spend."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Effort(StrEnum):
    QUICK = "quick"
    DEFAULT = "default"
    EXHAUSTIVE = "exhaustive"

    @property
    def rank(self) -> int:
        """Larger is more."""
        return list(Effort).index(self)


class Budget(Struct, frozen=True):
    """What an effort means for one program."""

    search_seconds: float
    """For rewriting it."""
    forms: int
    """Rewritten programs that are looked at."""
    contenders: int
    """Sources that are compiled and timed."""
    rounds: int
    """Of the last race; the first has a third of them."""
    race_seconds: float
    finalists: int
    kernels: int
    """Of the contenders, how many more are machine code of ours."""
    trials: int = 0
    """Of further kernels, beside the best of these."""
    trial_seconds: float = 0.0
    """For all of them."""


BUDGETS = {
    Effort.QUICK: Budget(1.0, 3, 6, 45, 4.0, 3, 4),
    Effort.DEFAULT: Budget(4.0, 6, 14, 63, 10.0, 4, 8, 16, 8.0),
    Effort.EXHAUSTIVE: Budget(30.0, 24, 64, 99, 40.0, 8, 32, 96, 60.0),
}
