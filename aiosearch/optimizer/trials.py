"""Trials of kernels beside those of a first race: each is raced against the best of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .contenders import Contender
from .effort import Budget
from .errors import OptimizeError
from .field import Field
from .places import Place
from .selection import Heat
from .tuning import tuned

_ROUNDS = 7
_NEAR = 1.5
"""Kernels that take so many times as long as the fastest are not worth further trials."""
_BEST = 2
"""So many of those that were tried are worth a real race."""


class Maker(Protocol):
    """Knows all kernels of a program, and makes those that are wanted."""

    async def beside(self, place: Place) -> Sequence[Place]:
        """The kernels that differ in one choice from others."""
        ...

    async def made(self, place: Place) -> Contender:
        """A contender of these kernels; raises OptimizeError where there is none."""
        ...


async def further(runners: Field, first: Heat, maker: Maker, budget: Budget) -> list[Contender]:
    """The best kernels near those that ran, where one of these is right, and near the fastest."""
    taken = {one: first.seconds(one) for one in first.entrants}
    best = await _promising(runners, taken) if budget.trials else None
    if best is None:
        return []
    runners.tell(f"trying kernels like {best.how}")
    trials = Trials(runners, maker, best, taken[best])
    known = {one: taken[one] for one in taken if one.kernels and one not in runners.notes}
    found = await trials.run(known, budget)
    chosen = [one for one in found if found[one] < taken[best]][:_BEST]
    for one in found.keys() - set(chosen):
        runners.note([one], f"{taken[runners.original] / found[one]:.2f} times in a trial")
    new = (one for one in taken if one not in first.entrants and one not in runners.notes)
    return [*new, *chosen]


async def _promising(runners: Field, taken: dict[Contender, float]) -> Contender | None:
    """The fastest kernel that the device computes as well, if it is near the fastest of all.

    Where one does not, neither do others that compute the same program, but they may be watched,
    and then are among those that were timed.
    """
    while left := [one for one in taken if one not in runners.notes]:
        one = min((one for one in left if one.kernels), key=taken.__getitem__, default=None)
        if one is None or taken[one] > _NEAR * min(map(taken.__getitem__, left)):
            break
        if await runners.agreeing(one) is not None:
            return one
        alike = [other for other in taken if other.kernels and other.form == one.form]
        runners.note(alike, f"out, as {one.how} is, which computes the same")
        instead = await runners.instead(one)
        if instead is not None and (seconds := await _timed(runners, instead, taken)) is not None:
            taken[instead] = seconds
    return None


async def _timed(
    runners: Field, contender: Contender, taken: Mapping[Contender, float]
) -> float | None:
    """What one more takes, beside the original."""
    heat = await runners.race([runners.original, contender], _ROUNDS)
    ratio = heat.race.speedup(1)
    return None if ratio is None else taken[runners.original] / ratio.median


@dataclass
class Trials:
    """One after the other, as an executor comes to them."""

    runners: Field
    maker: Maker
    best: Contender
    """What all others are raced against."""
    seconds: float
    """What that takes."""
    _made: dict[Place, Contender] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    async def run(self, known: Mapping[Contender, float], budget: Budget) -> dict[Contender, float]:
        """What kernels near the known ones take, the fastest first."""
        places = {one.place: taken for one, taken in known.items() if one.place is not None}
        found = await tuned(places, self._beside, self._time, budget.trials, budget.trial_seconds)
        return {self._made[one.place]: one.seconds for one in found}

    async def _beside(self, place: Place) -> Sequence[Place]:
        """The kernels near a place; none where the process that knows them is gone."""
        try:
            return await self.maker.beside(place)
        except OptimizeError as error:
            self._tell_once(f"no further kernels are tried: {error}")
            return ()

    def _tell_once(self, text: str) -> None:
        """What is wrong with one of many may be wrong with all of them."""
        if text not in self._told:
            self._told.add(text)
            self.runners.tell(text)

    async def _time(self, place: Place) -> float | None:
        """What these kernels take; nothing where they do not run."""
        try:
            contender = await self.maker.made(place)
        except OptimizeError as error:
            self._tell_once(f"kernels are left out: {error}")
            return None
        contender = self.runners.fit(contender)
        self._made[place] = contender
        if not await self.runners.enter(contender):
            return None
        heat = await self.runners.race([self.best, contender], _ROUNDS)
        ratio = heat.race.speedup(1)
        return None if ratio is None else self.seconds / ratio.median
