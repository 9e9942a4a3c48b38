"""What the optimizer has to say about a function."""

from __future__ import annotations

from msgspec import Struct

from .answers import Answer


class Tried(Struct, frozen=True):
    """One way that was tried, and what became of it."""

    how: str
    seconds: float | None
    """Of a call, by the median; none where it failed."""
    speedup: float | None
    """Over the original, by paired rounds."""
    note: str = ""
    """Why it is out, if it is."""


class Found(Struct, frozen=True):
    """What was found for one program of the function."""

    answer: Answer
    remembered: bool
    """Whether it was found before, and nothing was searched or timed now."""
    tried: tuple[Tried, ...] = ()

    def __str__(self) -> str:
        one = self.answer
        if not one.faster:
            told = "nothing faster was found"
        else:
            told = (
                f"{one.speedup:.2f} times as fast as written,"
                f" {one.timings.plain / one.timings.answer:.2f} times the best spelling"
            )
        again = ", as found before" if self.remembered else ""
        return f"{one.name}: {told}{again}; noise {one.timings.noise:.1%}"


class Report(Struct, frozen=True):
    """All programs that a function was cut into, and what was left alone."""

    found: tuple[Found, ...]
    left_alone: tuple[str, ...]
    seconds: float

    @property
    def faster(self) -> bool:
        return any(one.answer.faster for one in self.found)

    def __str__(self) -> str:
        lines = [str(one) for one in self.found] or ["nothing in it can be searched"]
        lines += [f"left alone: {why}" for why in self.left_alone]
        return "\n".join(lines)
