"""What it takes to win: a race, again where noise hides something, and one more to confirm it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from ..measure import Race
from .report import Tell

AGAIN = 2
"""How often a race is run again, where noise may hide what is faster."""
CONFIRMING = 1
"""What is added to the seed of a race that confirms: its inputs are others, and lie elsewhere."""

Racing: TypeAlias = Callable[[], Awaitable[Race]]
"""Runs a race once more."""


async def decided(
    racing: Racing, tell: Tell, counts: Callable[[int], bool] = lambda place: True
) -> tuple[Race, bool]:
    """A race, run again where noise may hide what is faster; and whether it ever did.

    Only contenders that count are looked at, by their places. Where something wins it is not run
    again, but others may be hidden, which counts if that cannot be taken. Whoever wins has been
    raced until something did, and as the fastest of several: it has to win a race of its own too.
    """
    in_doubt = False
    for left in range(AGAIN, -1, -1):
        race = await racing()
        hidden = any(map(race.hides, filter(counts, range(1, len(race.laps)))))
        in_doubt |= hidden
        if not hidden or not left or winning(race, counts):
            break
        tell(f"a noise of {race.noise() or 0.0:.0%} hides what may be faster; racing again")
    return race, in_doubt


def winning(race: Race, counts: Callable[[int], bool] = lambda place: True) -> list[int]:
    """The places of those that beat the first one, the fastest first."""
    places = [place for place in range(1, len(race.laps)) if counts(place) and race.wins(place)]
    return sorted(places, key=lambda place: -ratio(race, place))


def seeming(race: Race) -> list[int]:
    """The places of those that would beat the first one on a machine without noise."""
    return [place for place in range(1, len(race.laps)) if race.seems(place)]


def ratio(race: Race, place: int) -> float:
    """How many times as fast as the first one it is; 0 where it has no times."""
    found = race.speedup(place)
    return found.median if found is not None else 0.0
