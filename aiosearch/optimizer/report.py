"""What the optimizer has to say about a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from .answers import Answer

Tell: TypeAlias = Callable[[str], None]
"""Hears what is going on, in words."""


class Tried(Struct, frozen=True):
    """One way that was tried, and what became of it."""

    how: str
    seconds: float | None
    """Of a call, by the median; none where it failed or was too slow for the last race."""
    speedup: float | None
    """Over the original, by paired rounds."""
    note: str = ""
    """Why it is out, if it is."""
    verdict: str = ""
    """What is known of it as a program."""
    low: float | None = None
    """The seconds that the true median lies between, with 95 % confidence."""
    high: float | None = None


class Found(Struct, frozen=True):
    """What was found for one program of the function."""

    answer: Answer
    remembered: bool
    """Whether it was found before, and nothing was searched or timed now."""
    tried: tuple[Tried, ...] = ()
    in_doubt: bool = False
    """Whether something seemed faster, and the machine was too noisy to say so. Not remembered."""

    @property
    def over_plain(self) -> float:
        """How many times as fast as the best spelling of the original's own operations."""
        ratio = self.answer.timings.plain / self.answer.timings.answer
        return float(self.answer.evidence.get("speedup_over_plain", ratio))

    def __str__(self) -> str:
        one = self.answer
        if not one.faster:
            told = "nothing faster was found"
        else:
            told = (
                f"{one.speedup:.2f} times as fast as written,"
                f" {self.over_plain:.2f} times as fast as its best spelling"
            )
        if self.in_doubt:
            told += " for certain, as the machine is too noisy"
        again = ", as found before" if self.remembered else ""
        return f"{one.name}: {told}{again}; noise {one.timings.noise - 1:.1%}"


class Whole(Struct, frozen=True):
    """What the function as a whole gains by what is faster in it."""

    answer: Answer
    remembered: bool

    def __str__(self) -> str:
        one = self.answer
        told = (
            f"{one.speedup:.2f} times as fast as written, with {len(one.evidence['kept'])} replaced"
            if one.faster
            else "not faster with what is faster alone, so that nothing is replaced"
        )
        again = ", as found before" if self.remembered else ""
        return f"{one.name}: {told}{again}; noise {one.timings.noise - 1:.1%}"


class Report(Struct, frozen=True):
    """All programs that a function was cut into, and what was left alone."""

    found: tuple[Found, ...]
    left_alone: tuple[str, ...]
    seconds: float
    whole: Whole | str = ""
    """Of a function of several pieces with something faster; or why it could not be timed as one,
    and so is left as it is."""

    @property
    def faster(self) -> bool:
        if self.whole:
            return isinstance(self.whole, Whole) and self.whole.answer.faster
        return any(one.answer.faster for one in self.found)

    def __str__(self) -> str:
        lines = [str(one) for one in self.found] or ["nothing in it can be searched"]
        lines += [str(self.whole)] if self.whole else []
        lines += [f"left alone: {why}" for why in self.left_alone]
        return "\n".join(lines)
