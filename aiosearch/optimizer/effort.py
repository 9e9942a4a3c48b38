"""`Effort` and `Budget`: how many candidates, rounds and seconds an optimization may spend."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Effort(StrEnum):
    """How much is spent to find an answer; the figures are in `BUDGETS`."""

    QUICK = "quick"
    DEFAULT = "default"
    EXHAUSTIVE = "exhaustive"

    @property
    def rank(self) -> int:
        """Larger is more: an answer with less effort is searched again with more."""
        return list(Effort).index(self)


class Budget(Struct, frozen=True):
    """What an `Effort` means for one program."""

    search_seconds: float
    """Seconds for rewriting it."""
    forms: int
    """Rewritten programs that are looked at."""
    contenders: int
    """Sources that are compiled and timed."""
    rounds: int
    """Rounds of the last race; the first race has a third of them."""
    race_seconds: float
    """Seconds that a race takes at most."""
    finalists: int
    """Contenders in the last race, where there are more in the first."""
    kernels: int
    """Contenders besides, that are machine code of ours."""
    trials: int = 0
    """Further kernels that `tune_kernels` tries near the best of these."""
    trial_seconds: float = 0.0
    """Seconds for all of these trials."""


BUDGETS = {
    Effort.QUICK: Budget(1.0, 3, 6, 45, 4.0, 3, 4),
    Effort.DEFAULT: Budget(4.0, 6, 14, 63, 10.0, 4, 8, 16, 8.0),
    Effort.EXHAUSTIVE: Budget(30.0, 24, 64, 99, 40.0, 8, 32, 96, 60.0),
}
