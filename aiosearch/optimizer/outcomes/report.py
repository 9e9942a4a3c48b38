"""`Report`: what the optimizer found for each program of a function, as text and as JSON.

    f: 1.42 times as fast as written, with 2 parts replaced; noise 1.3%
    in it, norm alone: 2.08 times as fast as written, 1.10 times as fast as the best plain JAX; …
    left alone: sort at model.py:12:4 (loss)

`times_by_mode` has a race's times in every `Way` of running.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from ...folders import replace_file
from ...measure import Clock, Race, Way
from ...measure.ratios import LEAST_GAIN
from .answer import Answer
from .evidence import ModeTimes, Tried
from .function_parts import OUTSIDE, FunctionPart, PartTimes

Tell: TypeAlias = Callable[[str], None]
"""Hears what is going on, in words."""
WHOLE = " (whole)"
"""Ends the name of an answer that is for a function as a whole."""
CALLED = " (as called)"
"""Ends the name of an answer that is for a function as it is called."""
_DOUBT = " for certain, as the machine is too noisy"


class Found(Struct, frozen=True):
    """What was found for one program of the function."""

    answer: Answer
    remembered: bool
    """Whether it was found before, and nothing was searched or timed now."""
    tried: tuple[Tried, ...] = ()
    in_doubt: bool = False
    """Whether something seemed faster, and the machine was too noisy to say so. Then its best
    guesses are raced again the next time."""
    found_for: str = ""
    """The function that it was found for, where that has another name than this one."""

    @property
    def over_plain(self) -> float:
        """How many times as fast as the best plain JAX that was verified, rewritten or not: the
        lower end of the interval, as of `Answer.speedup`."""
        between = self.answer.evidence.over_plain_between
        if between is not None and self.answer.faster:
            return between[0]
        # Of medians, for answers that were stored without paired rounds.
        ratio = self.answer.timings.plain / self.answer.timings.answer
        measured = self.answer.evidence.speedup_over_plain
        return ratio if measured is None else measured

    @classmethod
    def before(cls, answer: Answer, name: str) -> Found:
        """What was found before, with what was tried then, as an outcome for the
        function `name`."""
        tried = answer.evidence.tried
        # An equal program of another function: the report is about the caller's, and says where the
        # answer is from.
        if name == answer.name:
            return cls(answer, True, tried, in_doubt=answer.in_doubt)
        other_names = tuple(alias for alias in answer.names if alias != name)
        renamed = msgspec.structs.replace(answer, name=name, others=other_names)
        return cls(renamed, True, tried, in_doubt=answer.in_doubt, found_for=answer.name)

    def __str__(self) -> str:
        answer = self.answer
        again = _again(self.remembered, self.found_for)
        text = f"{self._gain()}{again}; {_noise(answer, self.in_doubt)}{self._more_defined()}"
        return f"{answer.name}: {text}"

    def __repr__(self) -> str:
        """A line: the source and all that was tried are pages."""
        return f"<found: {self.verified()}>"

    def verified(self) -> str:
        """The outcome, and how it is verified."""
        return "; ".join(filter(None, (str(self), self.answer.known)))

    def as_part(self, used: bool) -> str:
        """The outcome where the program is a part of the function."""
        if self.answer.faster and not used:
            text = f"faster alone ({self.answer.speedup:.2f}x), and not used"
            return f"in it, {self.answer.name}: {text}"
        name, _, text = str(self).partition(": ")
        return f"in it, {name} alone: {text}"

    def _gain(self) -> str:
        answer = self.answer
        if not answer.faster:
            return f"nothing faster was found{_DOUBT if self.in_doubt else ''}"
        gain = f"{answer.speedup:.2f} times as fast as written"
        if self.over_plain == 1 and not answer.has_kernels:
            return f"{gain}, in plain JAX"
        return f"{gain}, {self.over_plain:.2f} times as fast as the best plain JAX"

    def _more_defined(self) -> str:
        """What the usual policy allows and a reader would not expect: numbers where the original
        gives NaN."""
        count = self.answer.evidence.newly_defined if self.answer.faster else 0
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
        """What was found before, as an outcome for the function `name`."""
        found_for = answer.name.removesuffix(WHOLE)
        if found_for == name:
            return cls(answer, remembered=True)
        whole_name = f"{name}{WHOLE}"
        other_names = tuple(alias for alias in answer.names if alias != whole_name)
        renamed = msgspec.structs.replace(answer, name=whole_name, others=other_names)
        return cls(renamed, remembered=True, found_for=found_for)

    def __str__(self) -> str:
        answer = self.answer
        doubt = _DOUBT if self.in_doubt else ""
        text = (
            f"{answer.speedup:.2f} times as fast as written,"
            f" with {_parts(len(answer.evidence.kept or ()))} replaced"
            if answer.faster
            else f"not faster{doubt}, and so left as it is{self.best_arrangement}"
        )
        again = _again(self.remembered, self.found_for)
        name = answer.name.removesuffix(WHOLE)
        return f"{name}: {text}{again}; {_noise(answer, self.in_doubt)}"

    @property
    def best_arrangement(self) -> str:
        """How the function fared with what is faster alone, as a clause; empty where that is not
        known."""
        timed = [trial for trial in self.answer.evidence.tried[1:] if trial.speedup is not None]
        if not timed:
            return ""
        best = max(timed, key=lambda trial: trial.speedup or 0.0)
        speed = f"it runs at {best.speedup:.2f} times its speed"
        return f": with {arrangement(best.how)} replaced {speed}"

    def __repr__(self) -> str:
        """A line, as of what was found for a program."""
        return f"<whole: {self}>"


class Report(Struct, frozen=True):
    """All programs that a function was cut into, and what was left alone."""

    found: tuple[Found, ...]
    left_alone: tuple[str, ...]
    seconds: float
    whole: WholeFunctionResult | str = ""
    """The race of a function of several pieces as a whole, or why it could not be timed and is left
    as it is; empty where it was not needed."""
    parts: tuple[FunctionPart, ...] = ()
    """Where each program stands in the user's code, and what is outside of all; empty where that is
    not known."""

    history: tuple[tuple[float, float], ...] = ()
    """The seconds after which something better was there, and how many times as fast it is."""
    unfinished: bool = False
    """Whether it was stopped before all that its effort allows was done; the next call goes on."""
    closed_over: int = 0
    """How many arrays the function reads from outside, such as weights of a module."""

    @property
    def faster(self) -> bool:
        if self.whole:
            return isinstance(self.whole, WholeFunctionResult) and self.whole.answer.faster
        return any(outcome.answer.faster for outcome in self.found)

    @property
    def speedup(self) -> float | None:
        """How many times as fast as the function is written; `None` where it is not faster."""
        if not self.faster:
            return None
        if isinstance(self.whole, WholeFunctionResult):
            return self.whole.answer.speedup
        return next(outcome.answer.speedup for outcome in self.found if outcome.answer.faster)

    def used(self, outcome: Found) -> bool:
        """Whether what was found for a program stands in the function."""
        if isinstance(self.whole, WholeFunctionResult):
            return self.whole.answer.faster and outcome.answer.id in (
                self.whole.answer.evidence.kept or ()
            )
        return outcome.answer.faster and not self.whole

    def found_for(self, part: FunctionPart) -> Found | None:
        """What was found for a part of the function; `None` for one that was not searched."""
        return next((outcome for outcome in self.found if outcome.answer.name == part.name), None)

    @property
    def is_timed_whole(self) -> bool:
        """Whether the time of the function is known: shares are of its programs' otherwise."""
        return isinstance(self.whole, WholeFunctionResult) or len(self.parts) == 1

    def share(self, part: FunctionPart) -> PartTimes:
        """How much of the function's time a part took as written, and takes now."""
        seconds = [self._seconds(listed) for listed in self.parts]
        totals = [sum(column) for column in zip(*seconds, strict=True)] or [0.0, 0.0]
        if isinstance(self.whole, WholeFunctionResult):
            timings = self.whole.answer.timings
            all_parts, totals = totals, [timings.original, timings.answer]
        elif part.name == OUTSIDE:
            return PartTimes(None, None)
        else:
            all_parts = totals
        if not all(totals):
            return PartTimes(None, None)
        if part.name == OUTSIDE:  # the rest, where parts alone leave one
            rest = [
                max(1 - alone / all_, 0.0) for alone, all_ in zip(all_parts, totals, strict=True)
            ]
            return PartTimes(*rest)
        alone = self._seconds(part)
        return PartTimes(alone[0] / totals[0], alone[1] / totals[1])

    def _seconds(self, part: FunctionPart) -> tuple[float, float]:
        """What a part takes alone, as often as it occurs, as written and now."""
        outcome = self.found_for(part)
        if outcome is None:
            return 0.0, 0.0
        timings = outcome.answer.timings
        now = timings.answer if self.used(outcome) else timings.original
        return part.occurrences * timings.original, part.occurrences * now

    def table(self, width: int = 80, colour: bool = False) -> str:
        """What is found, as the console script prints it: parts, candidates and their reasons."""
        from .report_table import report_table

        return report_table(self, width=width, colour=colour)

    def save(self, path: str | PathLike[str]) -> Path:
        """Writes the report as an HTML page that stands alone, and gives its path.

        The file is there whole, or as it was before. Raises `OSError` where it cannot be written.
        """
        from .report_page import report_page

        place = Path(path).expanduser()
        replace_file(place, report_page(self).encode())
        return place

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        from .report_page import report_fragment

        return report_fragment(self)

    def told(self, outcome: Found) -> str:
        """What is said of one program: as of the function, or as of a part of it."""
        return outcome.as_part(self.used(outcome)) if self.whole else str(outcome)

    def __str__(self) -> str:
        lines = [str(self.whole)] if self.whole else []
        lines += map(self.told, self.found)
        lines += [] if self.found or self.left_alone else ["nothing in it can be searched"]
        lines += [f"left alone: {why}" for why in self.left_alone]
        lines += [self.going_on] if self.unfinished else []
        lines += [self.held] if self.closed_over else []
        return "\n".join(lines)

    @property
    def held(self) -> str:
        """What holds of arrays that are read from outside."""
        arrays = "1 array" if self.closed_over == 1 else f"{self.closed_over} arrays"
        return (
            f"reads {arrays} from outside, such as weights of a module: as under jax.jit, later"
            " changes of them are not seen"
        )

    @property
    def going_on(self) -> str:
        """What holds where it is `unfinished`."""
        return f"unfinished: stopped after {self.seconds:.3g} s; the next call goes on from there"

    def __repr__(self) -> str:
        """The first line of `str`, and how many others there are."""
        first, *further = str(self).splitlines()
        if self.found and not self.whole:
            first = self.found[0].verified()
        suffix = f", and {len(further)} more line{'s' * (len(further) != 1)}" if further else ""
        return f"<report: {first}{suffix}>"


def arrangement(name: str) -> str:
    """The parts that an arrangement of a race replaces: `only f_2, 0` is f_2 alone."""
    parts = re.sub(r", \d+", "", name)
    if parts == "all that are faster":
        return "the faster parts"
    only = parts.removeprefix("only ")
    return f"{only} alone" if only != parts else parts.replace("all but", "the faster parts but")


def _again(remembered: bool, found_for: str) -> str:
    origin = f", for {found_for}" if found_for else ""
    return f", as found before{origin}" if remembered else ""


def _noise(answer: Answer, in_doubt: bool) -> str:
    """How far the original seemed from itself, and what the answer is worth where that is much."""
    noise = answer.timings.noise - 1
    text = f"noise {noise:.1%}"
    if in_doubt:
        hidden = f"a gain above {LEAST_GAIN:.0%} may be hidden"
        return f"{text}, and {hidden}: it is raced again the next time"
    # Below it a reader need not think about noise.
    if not answer.uncertain:
        return text
    if answer.faster:
        return f"{text}: the gain is uncertain, and is measured again on a quieter machine"
    return f"{text}, which hides no gain: by their intervals none is above {LEAST_GAIN:.0%}"


def _parts(count: int) -> str:
    return "1 part" if count == 1 else f"{count} parts"


def times_by_mode(race: Race, place: int) -> dict[str, ModeTimes]:
    """Seconds of a call by medians, by the value of each `Way`, and of all threads of
    the process."""
    return {way.value: _times(race, place, way) for way in race.ways}


def _times(race: Race, place: int, way: Way) -> ModeTimes:
    original, answer = (race.laps[at].samples[way] for at in (0, place))
    ratio = race.speedup(place, way=way)
    assert ratio is not None
    return ModeTimes(
        original=original.median(),
        answer=answer.median(),
        speedup=ratio.median,
        low=ratio.low,
        high=ratio.high,
        original_cpu=original.median(Clock.CPU),
        answer_cpu=answer.median(Clock.CPU),
    )
