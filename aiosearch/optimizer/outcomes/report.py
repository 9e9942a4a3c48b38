"""`Report`: what the optimizer found for each program of a function, as text and as JSON.

A race's times in every way of running: of the original, and of the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from ...measure import Clock, Race, Way
from ...measure.ratios import LEAST_GAIN, LOUD
from .answer import Answer

Tell: TypeAlias = Callable[[str], None]
"""Hears what is going on, in words."""
WHOLE = " (whole)"
CALLED = " (as called)"
"""Ends the name of an answer that is for a function as a whole."""
_DOUBT = " for certain, as the machine is too noisy"


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
    won: bool = False
    """Whether it is the answer."""


class Found(Struct, frozen=True):
    """What was found for one program of the function."""

    answer: Answer
    remembered: bool
    """Whether it was found before, and nothing was searched or timed now."""
    tried: tuple[Tried, ...] = ()
    in_doubt: bool = False
    """Whether something seemed faster, and the machine was too noisy to say so. Not remembered."""
    found_for: str = ""
    """The function that it was found for, where that has another name."""

    @property
    def over_plain(self) -> float:
        """How many times as fast as the best spelling of the original's own operations."""
        ratio = self.answer.timings.plain / self.answer.timings.answer
        return float(self.answer.evidence.get("speedup_over_plain", ratio))

    @classmethod
    def before(cls, answer: Answer, name: str) -> Found:
        """What was found before, with what was tried then; told of the function of this name."""
        tried = msgspec.convert(answer.evidence.get("tried", ()), tuple[Tried, ...])
        if name == answer.name:
            return cls(answer, True, tried)
        others = tuple(one for one in answer.names if one != name)
        told = msgspec.structs.replace(answer, name=name, others=others)
        return cls(told, True, tried, found_for=answer.name)

    def __str__(self) -> str:
        one = self.answer
        again = _again(self.remembered, self.found_for)
        told = f"{self._gain()}{again}; {_noise(one, self.in_doubt)}{self._more_defined()}"
        return f"{one.name}: {told}"

    def __repr__(self) -> str:
        """A line: the source and all that was tried are pages."""
        return f"<found: {self.verified()}>"

    def verified(self) -> str:
        """What is said of it, and how it is verified."""
        return "; ".join(filter(None, (str(self), self.answer.known)))

    def as_part(self, used: bool) -> str:
        """What is said of it where it is a part of the function."""
        if self.answer.faster and not used:
            told = "left as it is; what was found for it alone is not used"
            return f"in it, {self.answer.name}: {told}"
        name, _, told = str(self).partition(": ")
        return f"in it, {name} alone: {told}"

    def _gain(self) -> str:
        one = self.answer
        if not one.faster:
            return f"nothing faster was found{_DOUBT if self.in_doubt else ''}"
        return (
            f"{one.speedup:.2f} times as fast as written,"
            f" {self.over_plain:.2f} times as fast as its best spelling"
        )

    def _more_defined(self) -> str:
        """What the usual policy allows and a reader would not expect."""
        count = self.answer.evidence.get("newly_defined", 0) if self.answer.faster else 0
        if not count:
            return ""
        return (
            f"; gives numbers at {count:,} element{'s' * (count != 1)} where the original gives"
            " none: strict=True forbids it"
        )


class WholeFunctionResult(Struct, frozen=True):
    """What the function as a whole gains by what is faster in it."""

    answer: Answer
    remembered: bool
    found_for: str = ""
    """The function that it was found for, where that has another name."""
    in_doubt: bool = False
    """Whether it seemed faster, and the machine was too noisy to say so. Not remembered."""

    @classmethod
    def before(cls, answer: Answer, name: str) -> WholeFunctionResult:
        """What was found before, told of the function of this name."""
        found_for = answer.name.removesuffix(WHOLE)
        if found_for == name:
            return cls(answer, remembered=True)
        own = f"{name}{WHOLE}"
        others = tuple(one for one in answer.names if one != own)
        told = msgspec.structs.replace(answer, name=own, others=others)
        return cls(told, remembered=True, found_for=found_for)

    def __str__(self) -> str:
        one = self.answer
        doubt = f"{_DOUBT}," if self.in_doubt else ""
        told = (
            f"{one.speedup:.2f} times as fast as written,"
            f" with {_parts(len(one.evidence['kept']))} replaced"
            if one.faster
            else f"not faster{doubt} with what is faster alone, so that nothing is replaced"
        )
        again = _again(self.remembered, self.found_for)
        name = one.name.removesuffix(WHOLE)
        return f"{name}: {told}{again}; {_noise(one, self.in_doubt)}"

    def __repr__(self) -> str:
        """A line, as of what was found for a program."""
        return f"<whole: {self}>"


class Report(Struct, frozen=True):
    """All programs that a function was cut into, and what was left alone."""

    found: tuple[Found, ...]
    left_alone: tuple[str, ...]
    seconds: float
    whole: WholeFunctionResult | str = ""
    """Of a function of several pieces with something faster; or why it could not be timed as one,
    and so is left as it is."""

    @property
    def faster(self) -> bool:
        if self.whole:
            return isinstance(self.whole, WholeFunctionResult) and self.whole.answer.faster
        return any(one.answer.faster for one in self.found)

    @property
    def speedup(self) -> float | None:
        """Of the function over itself as written; nothing where it is not faster."""
        if not self.faster:
            return None
        if isinstance(self.whole, WholeFunctionResult):
            return self.whole.answer.speedup
        return next(one.answer.speedup for one in self.found if one.answer.faster)

    def used(self, one: Found) -> bool:
        """Whether what was found stands in the function."""
        if isinstance(self.whole, WholeFunctionResult):
            return self.whole.answer.faster and one.answer.id in self.whole.answer.evidence["kept"]
        return one.answer.faster and not self.whole

    def told(self, one: Found) -> str:
        """What is said of one program: as of the function, or as of a part of it."""
        return one.as_part(self.used(one)) if self.whole else str(one)

    def __str__(self) -> str:
        lines = [str(self.whole)] if self.whole else []
        lines += map(self.told, self.found)
        lines += [] if self.found or self.left_alone else ["nothing in it can be searched"]
        lines += [f"left alone: {why}" for why in self.left_alone]
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Its first line, and how many others `str` gives."""
        first, *others = str(self).splitlines()
        if self.found and not self.whole:
            first = self.found[0].verified()
        more = f", and {len(others)} more line{'s' * (len(others) != 1)}" if others else ""
        return f"<report: {first}{more}>"


def _again(remembered: bool, found_for: str) -> str:
    told = f", for {found_for}" if found_for else ""
    return f", as found before{told}" if remembered else ""


def _noise(answer: Answer, in_doubt: bool) -> str:
    """How far the original seemed from itself, and what the answer is worth where that is much."""
    noise = answer.timings.noise - 1
    told = f"noise {noise:.1%}"
    if in_doubt:
        return f"{told}, and a gain above {LEAST_GAIN:.0%} may be hidden: nothing is remembered"
    if noise <= LOUD:
        return told
    if answer.faster:
        return f"{told}, which the gain is above"
    return f"{told}, which hides no gain: by their intervals none is above {LEAST_GAIN:.0%}"


def _parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count} parts"


def times_by_mode(race: Race, place: int) -> dict[str, Any]:
    """Seconds of a call by medians, for JSON: in each way, and of all threads of the process."""
    return {way.value: _facts(race, place, way) for way in race.ways}


def _facts(race: Race, place: int, way: Way) -> dict[str, float]:
    original, answer = (race.laps[at].samples[way] for at in (0, place))
    ratio = race.speedup(place, way=way)
    assert ratio is not None
    return {
        "original": original.median(),
        "answer": answer.median(),
        "speedup": ratio.median,
        "low": ratio.low,
        "high": ratio.high,
        "original_cpu": original.median(Clock.CPU),
        "answer_cpu": answer.median(Clock.CPU),
    }
