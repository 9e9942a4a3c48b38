"""How often a race is run, and what stays in doubt."""

from __future__ import annotations

from collections.abc import Sequence

from aiosearch.measure import Lap, Race, Samples, Way
from aiosearch.optimizer.effort import NO_DEADLINE, Deadline
from aiosearch.optimizer.race.selection import RACE_RERUNS, decide_race, winners

ROUNDS = 12


def lap(seconds: Sequence[float]) -> Lap:
    wall = tuple(seconds[number % len(seconds)] for number in range(ROUNDS))
    return Lap("", {Way.HOT: Samples(wall, wall)})


def race(*others: Sequence[float], again: Sequence[float] = (4.0,)) -> Race:
    """The first takes four seconds; `again` is itself once more."""
    return Race((lap([4.0]), *map(lap, others)), lap(again), (Way.HOT,), ROUNDS)


LOUD = (3.0, 5.0)
"""Itself once more, where noise comes to a third."""


async def outcome(*races: Race, deadline: Deadline = NO_DEADLINE) -> tuple[int, list[int]]:
    """How many of these races were run, and the places of what stays in doubt."""
    left = list(races)

    async def racing() -> Race:
        return left.pop(0)

    _, hidden = await decide_race(racing, lambda text: None, deadline=deadline)
    return len(races) - len(left), hidden


async def test_it_is_run_again_while_noise_may_hide_something() -> None:
    hiding, quiet = race((3.5,), again=LOUD), race((3.5,))
    assert await outcome(*[hiding] * 9) == (1 + RACE_RERUNS, [1])
    assert await outcome(hiding, quiet, quiet) == (2, [])
    assert await outcome(quiet, quiet) == (1, [])
    assert await outcome(race((4.0,)), quiet) == (1, [])


async def test_rounds_of_all_races_count_together() -> None:
    """Six rounds of which two were disturbed tell nothing, twice as many do."""
    disturbed = [4.0, 4.0, 4.0, 4.0, 3.7, 4.3]
    again = Lap("", {Way.HOT: Samples(tuple(disturbed), tuple(disturbed))})
    first, other = (Lap("", {Way.HOT: Samples((each,) * 6, (each,) * 6)}) for each in (4.0, 3.8))
    open_race = Race((first, other), again, (Way.HOT,), 6)
    assert open_race.hides(1)
    assert not open_race.wins(1)
    left = [open_race] * 2

    async def racing() -> Race:
        return left.pop()

    race, hidden = await decide_race(racing, lambda text: None)
    assert (race.rounds, hidden, len(left)) == (12, [], 0)
    assert race.wins(1)


async def test_after_the_deadline_no_race_is_run_again() -> None:
    hiding = race((3.5,), again=LOUD)
    assert await outcome(hiding, hiding, deadline=Deadline.after(0.0)) == (1, [1])


async def test_what_is_hidden_beside_a_winner_stays_in_doubt() -> None:
    """Which need not be taken: it may turn out to be wrong."""
    both = race((1.0,), (3.5,), again=LOUD)
    assert winners(both) == [1]
    assert await outcome(both, both) == (1, [2])
