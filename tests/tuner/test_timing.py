"""Points are timed in turns with the fastest so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from aiosearch.measure import Act, Candidate, Cause, Compiled, MockExecutor, Race, Stage
from aiosearch.tuner.search.proposals import Measurement
from aiosearch.tuner.space.sites import IntegerSite
from aiosearch.tuner.space.traces import Trace
from aiosearch.tuner.timing import Baseline, PointTimer

SECONDS = {"untuned": 9e-3, "good": 6e-3, "better": 5e-3}


def acts(factor: float = 1.0) -> dict[str, Act]:
    return {name: Act(seconds * factor, compile_seconds=0.0) for name, seconds in SECONDS.items()}


async def built(executor: MockExecutor, name: str) -> Compiled:
    build = await executor.compile(Candidate(name, "", "candidate", ()))
    assert isinstance(build, Compiled)
    return build


def trace(at: int) -> Trace:
    return Trace((IntegerSite(name="at", low=0, high=9),), {"at": at})


async def timer(executor: MockExecutor) -> PointTimer:
    """With an untuned form that is timed, and the good one verified."""
    times = PointTimer(executor, 3, 0)
    untuned = await built(executor, "untuned")
    seconds = await times.timed(untuned)
    assert isinstance(seconds, float)
    times.baseline = Baseline(trace(0), untuned, seconds)
    times.verified[trace(0).key] = (Measurement(trace(0), seconds), untuned)
    good = await built(executor, "good")
    seconds = await times.timed(good)
    assert isinstance(seconds, float)
    times.verified[trace(1).key] = (Measurement(trace(1), seconds), good)
    return times


@pytest.mark.parametrize("factor", [0.4, 2.5])
async def test_a_machine_of_another_speed_gives_a_point_the_same_seconds(factor: float) -> None:
    machine = acts()
    async with MockExecutor(machine, noise=0.001) as executor:
        times = await timer(executor)
        machine.update(acts(factor))
        seconds = await times.timed(await built(executor, "better"))
    assert seconds == pytest.approx(5e-3, rel=0.02)


async def test_what_seemed_the_fastest_by_luck_is_corrected_and_so_is_the_one_before() -> None:
    async with MockExecutor(acts(), noise=0.001) as executor:
        times = await timer(executor)
        good = times.verified[trace(1).key][1]
        times.verified[trace(1).key] = (Measurement(trace(1), 2e-3), good)
        seconds = await times.contested(await built(executor, "better"), 1e-3)
        assert seconds == pytest.approx(5e-3, rel=0.02)
        assert times.verified[trace(1).key][0].seconds == pytest.approx(6e-3, rel=0.02)
        assert times.baseline is not None
        assert times.baseline.seconds == pytest.approx(9e-3, rel=0.02)


async def test_a_point_is_timed_where_the_fastest_so_far_fails() -> None:
    machine = acts()
    async with MockExecutor(machine, noise=0.001) as executor:
        times = await timer(executor)
        machine["good"] = Act(6e-3, fails=(Stage.RACE, Cause.CRASHED))
        seconds = await times.timed(await built(executor, "better"))
    assert seconds == pytest.approx(5e-3, rel=0.02)


class RacesSeen(MockExecutor):
    """Notes how many rounds each race had, and between whom."""

    def __init__(self, acts: dict[str, Act]) -> None:
        super().__init__(acts, noise=0.001)
        self.rounds: list[tuple[str, int]] = []

    async def race(self, contenders: Sequence[Compiled], **options: Any) -> Race:
        race = await super().race(contenders, **options)
        self.rounds.append((contenders[0].name, race.rounds))
        return race


async def test_what_one_round_shows_to_be_far_behind_has_no_more() -> None:
    async with RacesSeen({**acts(), "slow": Act(8e-3)}) as executor:
        times = await timer(executor)
        executor.rounds.clear()
        await times.timed(await built(executor, "better"))
        assert await times.timed(await built(executor, "slow")) == pytest.approx(8e-3, rel=0.02)
    assert executor.rounds == [("better", 1), ("better", 2), ("slow", 1)]


async def test_what_runs_long_is_timed_in_one_round_of_what_the_search_has_left() -> None:
    async with RacesSeen(acts(1000)) as executor:
        times = PointTimer(executor, 3, 0, seconds=3.0)
        seconds = await times.timed(await built(executor, "untuned"))
    assert seconds == pytest.approx(9.0, rel=0.02)
    assert executor.rounds == [("untuned", 1)]
