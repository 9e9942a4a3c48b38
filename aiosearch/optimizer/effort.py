"""`Effort` and `Budget`: how many candidates, rounds and seconds an optimization may spend, and the
`EffortStep`s on which it gets there."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec import Struct


class Effort(StrEnum):
    """How much is spent to find an answer; the figures are in `BUDGETS`."""

    QUICK = "quick"
    DEFAULT = "default"
    EXHAUSTIVE = "exhaustive"


class Budget(Struct, frozen=True):
    """What an `Effort` means for one program; `effort` of `optimize` takes one too.

    optimize(f, x, effort=Budget(4.0, 6, 14, 63, 10.0, 4, 8))
    """

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
    proof_steps: int = 500_000
    """Steps of each proof that a rewritten program is equal; without a proof it may be tested."""
    proof_seconds: float = 15.0
    """Seconds for the proofs of all rewritten programs, if the machine is slow at their steps."""
    seconds: float = 3600.0
    """Seconds for all programs of a function and for the function as a whole; after them nothing is
    begun that an answer can do without."""


BUDGETS = {
    Effort.QUICK: Budget(1.0, 3, 6, 45, 4.0, 3, 4, 0, 0.0, 200_000, 4.0, 40.0),
    Effort.DEFAULT: Budget(4.0, 6, 14, 63, 10.0, 4, 8, 16, 8.0, seconds=300.0),
    Effort.EXHAUSTIVE: Budget(30.0, 24, 64, 99, 40.0, 8, 32, 96, 60.0, 900_000, 120.0, 3600.0),
}


@dataclass(frozen=True)
class Deadline:
    """When what an answer can do without is begun no more: no second race against noise, no further
    candidate, no further program.

    Example: of 40 seconds for two programs the first has `Deadline.after(40).part(0.5)`, so that it
    is over after 20; where it ends after 8, the second has the other 32.
    """

    at: float = math.inf
    """By `time.monotonic`."""

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        return cls(time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """The seconds until then; none where it has passed."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        return self.left == 0.0

    def part(self, share: float) -> Deadline:
        """The end of a share of what is left now."""
        return Deadline(self.at - (1 - share) * self.left) if math.isfinite(self.at) else self


NO_DEADLINE = Deadline()

UNFINISHED = "unfinished"
"""The `EffortStep.name` of the first look, and `Answer.effort` of what it alone has found."""
_FIRST_LOOK = Budget(0.25, 1, 3, 21, 1.5, 2, 2)
"""What the first look spends at most: a fraction of `quick`."""


class EffortStep(Struct, frozen=True):
    """One pass of an optimization that deepens its search: each spends more than the one before,
    and ends with an answer that may be used."""

    name: str
    """As `Answer.effort` has it."""
    budget: Budget

    def covers(self, asked: EffortStep) -> bool:
        """Whether an answer of this step need not be searched again for what is asked."""
        return _spends_as_much(self.budget, asked.budget)


def effort_steps(effort: Effort | Budget) -> tuple[EffortStep, ...]:
    """The passes that lead to an effort, the last of which spends just that.

    The first one is brief, so that something verified is there soon; see `Optimization`. A search
    that is `quick` takes none: racing and checking twice would double its time.
    """
    last = EffortStep(effort_name(effort), budget_of(effort))
    if _spends_as_much(BUDGETS[Effort.QUICK], last.budget):
        return (last,)
    first = EffortStep(UNFINISHED, _least(_FIRST_LOOK, last.budget))
    middle = (
        [effort_step(Effort.DEFAULT)]
        if _spends_as_much(last.budget, BUDGETS[Effort.EXHAUSTIVE])
        else []
    )
    # A budget that is as small as the first look is spent at once.
    return (*(step for step in (first, *middle) if not step.covers(last)), last)


def effort_step(effort: Effort | Budget) -> EffortStep:
    """The pass that spends just that."""
    return EffortStep(effort_name(effort), budget_of(effort))


def budget_of(effort: Effort | Budget) -> Budget:
    """What an effort spends."""
    return effort if isinstance(effort, Budget) else BUDGETS[effort]


def effort_name(effort: Effort | Budget) -> str:
    """How an answer names what was spent: a word, or the figures of a budget that has none."""
    if isinstance(effort, Effort):
        return effort.value
    words = (word.value for word, budget in BUDGETS.items() if budget == effort)
    figures = (f"{name}={getattr(effort, name):g}" for name in effort.__struct_fields__)
    return next(words, " ".join(figures))


def named_step(name: str) -> EffortStep:
    """The step that `effort_name` gave this name; one that spent nothing where there is none, as of
    an answer of another version."""
    if name == UNFINISHED:
        return EffortStep(name, _FIRST_LOOK)
    try:
        if name in list(Effort):
            return effort_step(Effort(name))
        figures = dict(part.split("=") for part in name.split())
        return EffortStep(name, msgspec.convert(figures, Budget, strict=False))
    except (ValueError, msgspec.ValidationError):
        return EffortStep(name, Budget(0.0, 0, 0, 0, 0.0, 0, 0))


def _least(first: Budget, second: Budget) -> Budget:
    """The lesser of two, figure by figure."""
    return Budget(*map(min, msgspec.structs.astuple(first), msgspec.structs.astuple(second)))


def _spends_as_much(first: Budget, second: Budget) -> bool:
    """Whether a program is searched as deeply; the seconds are those of all programs together."""
    first, second = (msgspec.structs.replace(budget, seconds=0.0) for budget in (first, second))
    figures = zip(msgspec.structs.astuple(first), msgspec.structs.astuple(second), strict=True)
    return all(ours >= theirs for ours, theirs in figures)
