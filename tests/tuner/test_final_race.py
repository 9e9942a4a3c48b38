"""The last race: two runs agree on who won it."""

from __future__ import annotations

import pytest

from aiosearch.measure import Act, Candidate, Compiled, MockExecutor, Race
from aiosearch.measure.race import LEAST_ROUNDS
from aiosearch.tuner.final_race import (
    FEW_ROUNDS,
    Contender,
    affordable,
    close_contenders,
    decide,
    finalists,
    least_rounds,
    reserved,
    tie_bound,
)
from aiosearch.tuner.search.proposals import Measurement
from aiosearch.tuner.space.sites import IntegerSite
from aiosearch.tuner.space.traces import Trace


async def raced(seconds: list[float], seed: int, noise: float, rounds: int = 41) -> Race:
    acts = {f"p{at}": Act(each, compile_seconds=0.0) for at, each in enumerate(seconds)}
    async with MockExecutor(acts, noise=noise, seed=seed) as executor:
        compiled = []
        for name in acts:
            build = await executor.compile(Candidate(name, "", "candidate", ()))
            assert isinstance(build, Compiled)
            compiled.append(build)
        return await executor.race(compiled, rounds=rounds, seed=seed)


def contenders(race: Race) -> list[Contender]:
    site = IntegerSite(name="at", low=0, high=99)
    traces = [Trace((site,), {"at": at}) for at in range(len(race.laps))]
    return [Contender(trace, Compiled(Candidate("", "", "", ()), 0.0)) for trace in traces]


def test_the_bound_of_a_tie_is_in_the_widest_gap() -> None:
    assert tie_bound([1.005, 1.022, 1.025, 1.055]) == pytest.approx(1.04)
    assert tie_bound([]) == pytest.approx(1.04)
    assert tie_bound([1.3, 1.059]) == pytest.approx(1.0395)


def measured(seconds: list[float]) -> list[Measurement]:
    site = IntegerSite(name="at", low=0, high=99)
    return [Measurement(Trace((site,), {"at": at}), each) for at, each in enumerate(seconds)]


def test_the_fastest_few_are_in_the_last_race_however_far_they_are_apart() -> None:
    """Three rounds on a loud machine now and then say half of what is true."""
    timed = measured([1.0, 2.0, 2.1, 2.2, 2.3])
    assert finalists(timed) == timed[:4]


def test_what_was_good_elsewhere_is_in_the_last_race_unless_it_is_far_behind() -> None:
    timed = measured([1.0, 1.2, 1.3, 1.4, 1.5, 1.9, 2.1])
    favourites = [entry.trace.key for entry in timed[5:]]
    assert finalists(timed, favourites) == [*timed[:4], timed[5]]


async def test_of_those_that_tie_the_first_in_order_wins() -> None:
    race = await raced([2.0, 1.01, 1.0, 1.2], 0, 0.0)
    decision = decide(race, contenders(race))
    assert decision.winner == 1
    assert decision.tied == 1


async def test_a_point_on_a_fixed_bound_wins_or_loses_in_every_run() -> None:
    """At 1.03 of the fastest, with nothing between it and 1.2."""
    winners = set()
    for seed in range(12):
        race = await raced([2.0, 1.03, 1.0, 1.2], seed, 0.01)
        winners.add(decide(race, contenders(race)).winner)
    assert winners == {1}


async def test_only_what_may_tie_runs_on() -> None:
    race = await raced([2.0, 1.05, 1.0, 1.2], 0, 0.0)
    assert close_contenders(race) == [0, 1, 2]
    alone = await raced([2.0, 1.0, 1.2], 0, 0.0)
    assert close_contenders(alone) == [0]


async def test_the_untuned_form_stays_where_noise_explains_the_gain() -> None:
    """Four rounds on a loud machine tell nothing, whatever their median says."""
    loud = [await raced([1.2, 1.0], seed, 0.8, rounds=4) for seed in range(20)]
    untold = [race for race in loud if (ratio := race.speedup(1)) is not None and ratio.low <= 1]
    medians = [ratio.median for race in untold if (ratio := race.speedup(1)) is not None]
    assert max(medians) > 1.2
    assert {decide(race, contenders(race)).winner for race in untold} == {0}


async def test_what_seems_far_ahead_and_is_not_told_from_the_untuned_form_runs_on() -> None:
    seeds = range(40)
    races = [await raced([1.5, 1.0, 2.0], seed, 0.3, rounds=5) for seed in seeds]
    ratios = [race.speedup(1) for race in races]
    untold = [
        race
        for race, ratio in zip(races, ratios, strict=True)
        if ratio is not None and ratio.median > 1.2 and ratio.low <= 1
    ]
    assert untold
    assert all({0, 1} <= {*close_contenders(race)} for race in untold)


@pytest.mark.parametrize(("run", "seconds"), [(0.001, 10.0), (0.5, 24.0), (5.0, 25.0)])
def test_what_runs_long_leaves_more_of_the_time_for_the_last_race(
    run: float, seconds: float
) -> None:
    """A fifth, or what the fewest rounds take, and never more than half."""
    assert reserved(50.0, run) == pytest.approx(seconds)


def test_of_what_runs_long_fewer_are_in_the_last_race() -> None:
    timed = measured([1.0, 1.1, 1.2, 1.3])
    assert affordable(timed, 1.0, 1e3) == timed
    assert affordable(timed, 1.0, 65.0) == timed[:2]
    assert affordable(timed, 1.0, 1.0) == timed[:1]


def test_a_last_race_without_time_has_fewer_rounds_where_runs_are_long() -> None:
    build = Compiled(Candidate("", "", "", ()), 0.0)
    assert least_rounds([Contender(None, build, 1e-3)] * 3, 0.0) == LEAST_ROUNDS
    assert least_rounds([Contender(None, build, 1.0)] * 3, 24.0) == LEAST_ROUNDS
    assert least_rounds([Contender(None, build, 1.0)] * 3, 23.0) == FEW_ROUNDS


@pytest.mark.parametrize(("seconds", "winner"), [(0.95, 0), (0.7, 1)])
async def test_with_few_rounds_the_untuned_form_stays_unless_all_show_a_tenth(
    seconds: float, winner: int
) -> None:
    race = await raced([1.0, seconds], 0, 0.001, rounds=FEW_ROUNDS)
    assert decide(race, contenders(race)).winner == winner
