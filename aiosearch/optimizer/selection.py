"""What a selection came to: the winner, the races that say so, and what became of the others."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from ..equivalence.floats import FloatEvidence
from ..measure import Race
from ..measure.ratios import interval
from .contenders import Contender
from .deciding import ratio
from .report import Tried
from .suiting import Suited


@dataclass(frozen=True)
class Heat:
    """A race, and who ran in it: the original first."""

    entrants: tuple[Contender, ...]
    race: Race

    @property
    def plain(self) -> Contender:
        """The fastest of those that do what the original does."""
        return min((one for one in self.entrants if is_plain(one)), key=self.seconds)

    def seconds(self, contender: Contender) -> float:
        place = self.entrants.index(contender)
        return math.inf if self.race.speedup(place) is None else times(self.race, place)[1]

    def speedup(self, contender: Contender, over: Contender) -> float:
        """How many times as fast as another one is, by paired rounds; 0 where one has no times."""
        places = self.entrants.index(contender), self.entrants.index(over)
        found = self.race.speedup(places[0], over=places[1])
        return 0.0 if found is None else found.median

    def best(self, most: int, out: Collection[Contender] = ()) -> list[Contender]:
        """The original, its best spelling, and the few others that did best and are not out.

        One of these makes nothing beforehand.
        """
        left = [place for place, one in enumerate(self.entrants) if place and one not in out]
        timed = [place for place in left if self.race.speedup(place) is not None]
        places = sorted(timed, key=lambda place: -ratio(self.race, place))
        plain = [place for place in places if is_plain(self.entrants[place])][:1]
        unpacked = [place for place in places if self.entrants[place].beforehand is None][:1]
        chosen = dict.fromkeys([*places[:most], *unpacked, *plain])
        return [self.entrants[0], *(self.entrants[place] for place in chosen)]


@dataclass(frozen=True)
class Selection:
    """The winner, which is the original where nothing beat it."""

    winner: Contender
    last: Heat
    """The race of all that were left."""
    final: Heat
    """The race that confirmed the winner, against the original and its best spelling alone."""
    tried: tuple[Tried, ...]
    inputs: Suited
    """What it was run on."""
    otherwise: Contender
    """The winner of those that make nothing beforehand."""
    floats: FloatEvidence | None = None
    in_doubt: bool = False
    """Whether something seemed faster, and was not above the noise."""

    @property
    def original(self) -> Contender:
        return self.last.entrants[0]

    @property
    def plain(self) -> Contender:
        """The fastest of those that do what the original does."""
        return self.final.plain

    @property
    def place(self) -> int:
        """The winner's place in the final race."""
        return self.final.entrants.index(self.winner)

    def seconds(self, contender: Contender) -> float:
        """Of one that ran in the final race."""
        return self.final.seconds(contender)

    def speedup(self, over: Contender) -> float:
        """How many times as fast as another the winner is, by paired rounds."""
        return self.final.speedup(self.winner, over)


def is_plain(contender: Contender) -> bool:
    """Whether it does what the original does, when that does it."""
    return contender.form == 0 and contender.beforehand is None and not contender.kernels


def times(race: Race, place: int) -> tuple[float, float, float]:
    """The median of a contender's times, between the ends of its interval."""
    samples = race.laps[place].samples[race.deciding]
    cut, _ = interval(len(samples.wall))
    ordered = sorted(samples.wall)
    return ordered[cut], samples.median(), ordered[-1 - cut]
