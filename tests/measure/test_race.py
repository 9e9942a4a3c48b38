"""Races on a virtual clock."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from aiosearch.measure import (
    Act,
    ArrayType,
    Candidate,
    Cause,
    Clock,
    Compiled,
    ExecutorError,
    Lap,
    MockExecutor,
    Race,
    Samples,
    Stage,
    Way,
)
from aiosearch.measure.mock_executor import VirtualClock
from aiosearch.measure.race import MOST_OUTAGES, Outage, run_race

HUNG = (Stage.RACE, Cause.HUNG)


def candidate(name: str) -> Candidate:
    return Candidate(name, "def f(x): return x", "f", (ArrayType("float32", (4,)),))


async def compile_all(executor: MockExecutor, *names: str) -> list[Compiled]:
    found = [await executor.compile(candidate(name)) for name in names]
    assert all(isinstance(each, Compiled) for each in found)
    return [each for each in found if isinstance(each, Compiled)]


async def race(
    acts: dict[str, Act], *, noise: float = 0.01, seed: int = 0, rounds: int = 21
) -> Race:
    async with MockExecutor(acts, noise=noise, seed=seed) as executor:
        return await executor.race(await compile_all(executor, *acts), seed=seed, rounds=rounds)


async def test_races_repeat() -> None:
    """The same seed gives the same race to the last digit, another seed another."""
    acts = {"old": Act(2e-3), "new": Act(1e-3)}
    assert await race(acts, seed=7) == await race(acts, seed=7)
    assert await race(acts, seed=7) != await race(acts, seed=8)


async def test_the_deciding_way_alone_takes_a_fraction_of_the_time() -> None:
    async with MockExecutor({"old": Act(1.0)}, noise=0.01) as executor:
        (old,) = await compile_all(executor, "old")
        race = await executor.race([old], rounds=6, deciding=True)
        assert race.ways == (Way.HOT,)
        assert executor.clock.now == pytest.approx(6 * 2, rel=0.05)


@pytest.mark.parametrize(("noise", "rounds"), [(0.01, 6), (1.0, 9)])
async def test_a_few_rounds_more_are_run_where_noise_is_all_that_is_seen(
    noise: float, rounds: int
) -> None:
    async with MockExecutor({"old": Act(1.0)}, noise=noise) as executor:
        (old,) = await compile_all(executor, "old")
        assert (await executor.race([old], rounds=21, seconds=0)).rounds == rounds


async def test_who_asks_for_fewer_rounds_gets_them() -> None:
    """Where what is timed takes seconds, those of an interval would take minutes."""
    async with MockExecutor({"old": Act(1.0)}, noise=1.0) as executor:
        (old,) = await compile_all(executor, "old")
        assert (await executor.race([old], rounds=21, seconds=0, least=2)).rounds == 2


async def test_a_race_in_the_deciding_way_alone_is_short_on_a_loud_machine_too() -> None:
    """It says who is worth another race."""
    async with MockExecutor({"old": Act(1.0)}, noise=1.0) as executor:
        (old,) = await compile_all(executor, "old")
        race = await executor.race([old], rounds=21, seconds=0, deciding=True)
        assert race.rounds == 6


async def test_rounds_of_two_races_are_those_of_one() -> None:
    """Pairs stay pairs, and the interval is that of all of them."""
    acts = {"old": Act(2e-3), "new": Act(1e-3)}
    first, later = await race(acts, seed=1, rounds=6), await race(acts, seed=2, rounds=6)
    both = first.joined(later)
    assert both.rounds == 12
    assert both.ways == first.ways
    for mine, ours, theirs in zip(both.laps, first.laps, later.laps, strict=True):
        times = ours.samples[Way.COLD].wall + theirs.samples[Way.COLD].wall
        assert mine.samples[Way.COLD].wall == times
    ratios = [each.speedup(1) for each in (both, first, later)]
    joined, *single = [ratio.high - ratio.low for ratio in ratios if ratio is not None]
    assert joined < max(single)


async def test_who_failed_in_a_later_race_has_no_times_in_both() -> None:
    acts = {"old": Act(2e-3), "new": Act(1e-3)}
    failing = {**acts, "new": Act(1e-3, fails=HUNG)}
    both = (await race(acts, rounds=6)).joined(await race(failing, rounds=6))
    assert both.speedup(1) is None
    assert both.laps[1].failure is not None
    assert both.noise() is not None


async def test_time_is_virtual() -> None:
    """An hour of racing takes no time, and the clock knows it."""
    async with MockExecutor({"old": Act(60.0, compile_seconds=5)}) as executor:
        (old,) = await compile_all(executor, "old")
        assert executor.clock.now == 5
        await executor.race([old], rounds=15)
        assert executor.clock.now == pytest.approx(5 + 15 * 4 * 60, rel=0.02)


async def test_the_faster_wins() -> None:
    """A gain above the noise is a win; its opposite and a tie are none."""
    found = await race({"old": Act(2e-3), "new": Act(1e-3), "same": Act(2e-3)})
    ratio = found.speedup(1)
    assert ratio is not None
    assert ratio.median == pytest.approx(2, rel=0.05)
    assert [found.wins(index) for index in range(3)] == [False, True, False]
    assert found.wins(1, over=2)
    assert not found.wins(2, over=1)
    assert found.wins(1, clock=Clock.CPU)


@pytest.mark.parametrize("seed", range(10))
async def test_noise_is_no_gain(seed: int) -> None:
    """On a machine that is noisy by a half, a fifth is not claimed, nor anything by an equal."""
    acts = {"old": Act(1.2e-3), "new": Act(1e-3), "same": Act(1.2e-3)}
    found = await race(acts, noise=0.5, seed=seed, rounds=11)
    assert not found.wins(1)
    assert not found.wins(2)


async def test_hot_and_cold_are_apart() -> None:
    """Who is faster on hot inputs only wins there only."""
    found = await race({"old": Act(2e-3, 2e-3), "new": Act(1e-3, 3e-3)})
    assert found.ways == (Way.HOT, Way.COLD)
    assert found.wins(1, way=Way.HOT)
    assert not found.wins(1, way=Way.COLD)
    assert found.wins(0, over=1, way=Way.COLD)


async def test_who_is_slower_cold_does_not_win() -> None:
    """However fast it is hot; a loss within the noise is none."""
    acts = {"old": Act(2e-3), "cold": Act(1e-3, 3e-3), "both": Act(1e-3), "same": Act(1e-3, 2e-3)}
    found = await race(acts)
    assert [found.wins(place) for place in range(4)] == [False, False, True, True]
    assert [found.seems(place) for place in range(4)] == [False, False, True, True]
    assert [found.lost(place) for place in range(4)] == [(), (Way.COLD,), (), ()]


def timed(**seconds: float) -> Lap:
    """Nine rounds, equal but for a hundredth of them."""
    rounds = range(9)
    return Lap(
        "lap",
        {
            Way(name): Samples(tuple(one * (1 + number / 900) for number in rounds))
            for name, one in seconds.items()
        },
    )


def test_where_the_device_alone_is_timed_that_decides() -> None:
    """A call's own way to the device may hide what it takes there; but it must not lose called."""
    old = timed(hot=2e-4, looped=1e-4)
    laps = (
        old,
        timed(hot=2e-4, looped=5e-5),
        timed(hot=3e-4, looped=5e-5),
        timed(hot=1e-4, looped=1e-4),
    )
    found = Race(laps, old, (Way.HOT, Way.LOOPED), 9)
    assert found.deciding is Way.LOOPED
    ratio = found.speedup(1)
    assert ratio is not None
    assert ratio.median == pytest.approx(2)
    assert [found.wins(place) for place in range(4)] == [False, True, False, False]
    assert found.lost(2) == (Way.HOT,)


async def test_a_failure_is_out_alone() -> None:
    """Who hangs is named, and the others' rounds are whole."""
    found = await race({"old": Act(), "bad": Act(fails=HUNG), "new": Act(5e-4)})
    bad = found.laps[1].failure
    assert bad is not None
    assert str(bad) == "bad did not end in time (race): as its act says"
    assert found.rounds == 21
    assert found.wins(2)
    assert found.speedup(1) is None


async def test_without_an_incumbent_nothing_is_won() -> None:
    """A race ends with its incumbent: there is nothing to be faster than."""
    found = await race({"bad": Act(fails=HUNG), "new": Act()})
    assert found.rounds == 0
    assert found.noise() is None
    assert not found.wins(1)


async def test_the_budget_ends_a_race() -> None:
    """No round begins after the time is over, but those that a ratio needs."""
    async with MockExecutor({"old": Act(1.0)}) as executor:
        compiled = await compile_all(executor, "old")
        assert (await executor.race(compiled, seconds=0, rounds=99)).rounds == 6
        assert (await executor.race(compiled, seconds=40, rounds=99)).rounds in (10, 11)
        assert (await executor.race(compiled, rounds=3)).rounds == 3


class Broken:
    """A stand that breaks down whenever it is prepared."""

    def __init__(self) -> None:
        self.prepared = 0

    async def prepare(self, runners: Sequence[Compiled], seed: int, deciding: bool) -> Outage:
        self.prepared += 1
        return Outage("signal 9")

    async def round(self, order: Sequence[int]) -> Outage:
        raise AssertionError("it is not prepared")


async def test_a_stand_that_breaks_down_again_and_again_ends_the_race() -> None:
    """It is prepared again some times, and then the race has an error, not a loser."""
    stand = Broken()
    old = Compiled(candidate("old"), 0.0)
    with pytest.raises(ExecutorError, match="broke down while nothing ran: signal 9"):
        await run_race(stand, [old], 0, 9, None, VirtualClock())
    assert stand.prepared == 1 + MOST_OUTAGES


async def test_a_race_needs_a_contender() -> None:
    """A race of nobody is refused."""
    async with MockExecutor({}) as executor:
        with pytest.raises(ValueError, match="needs a contender"):
            await executor.race([])


async def test_a_mock_has_to_be_open() -> None:
    """A mock is as strict about being open as a real executor."""
    with pytest.raises(ExecutorError, match="not open"):
        await MockExecutor({}).compile(candidate("old"))
