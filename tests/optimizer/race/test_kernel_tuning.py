"""Kernels beside those of a first race are tried, on a clock that only the executor moves.

Kernels are tuned by a search that measures; here the device is a function.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from aiosearch.measure import Act, Cause, MockExecutor, Stage
from aiosearch.optimizer.candidates.generation import CandidateSource
from aiosearch.optimizer.candidates.schedule_point import SchedulePoint
from aiosearch.optimizer.effort import BUDGETS, Effort
from aiosearch.optimizer.errors import OptimizeError
from aiosearch.optimizer.race.kernel_tuning import TimedKernel, tune_from_timings
from aiosearch.optimizer.race.selection import Selection
from aiosearch.optimizer.race.selector import Selector
from aiosearch.tensor.text import parse

PROGRAM = parse("program doubled(x: f32[6]) {\n  a = mul(x, 2)\n  return a\n}\n")
BUDGET = replace(BUDGETS[Effort.QUICK], trials=4, trial_seconds=60.0)


def doubled(inputs: Any) -> tuple[Any, ...]:
    return (inputs[0] * np.float32(2),)


def act(milliseconds: float, **more: Any) -> Act:
    return Act(seconds=milliseconds / 1e3, outputs=doubled, **more)


def kernel(number: int, form: int = 1) -> CandidateSource:
    place = SchedulePoint(0, ((number,),), (1e-3,), form)
    how = f"kernel {number}"
    return CandidateSource(how, form, b"", f"# {how}", "doubled", ("proved",), place=place)


class Shop:
    """Kernels in a row, of which some cannot be made."""

    def __init__(self, missing: int = -1, first: int = 0) -> None:
        self.missing, self.first = missing, first
        self.wanted: list[int] = []

    async def neighbours(self, place: SchedulePoint) -> list[SchedulePoint]:
        ((at,),) = place.points
        near = (one for one in (at - 1, at + 1) if self.first <= one < 6)
        return [SchedulePoint(0, ((one,),), (1e-3,), place.form) for one in near]

    async def contender(self, place: SchedulePoint) -> CandidateSource:
        ((at,),) = place.points
        self.wanted.append(at)
        if at == self.missing:
            raise OptimizeError("there is no such kernel")
        return kernel(at, place.form)


async def selected(
    acts: dict[str, Act], shop: Shop, known: Mapping[int, int] = MappingProxyType({2: 1})
) -> Selection:
    """With these kernels known, and the forms that they are of."""
    names = [how for how in acts if not how.startswith("kernel")]
    original, *others = (CandidateSource(how, 0, b"", f"# {how}", "doubled", ()) for how in names)
    async with MockExecutor(acts) as executor:
        selector = Selector(executor, PROGRAM, BUDGET, 0, False, lambda text: None, maker=shop)
        return await selector.select([original, *itertools.starmap(kernel, known.items()), *others])


def acts(*milliseconds: float) -> dict[str, Act]:
    """Of the original, of three other ways to say it, and of kernels."""
    others = {f"other {number}": act(9) for number in range(3)}
    return {"original": act(8), **others} | {
        f"kernel {number}": act(one) for number, one in enumerate(milliseconds)
    }


async def test_a_kernel_that_a_trial_finds_wins() -> None:
    """It was not among those that were proposed, and enters the last race."""
    shop = Shop()
    found = await selected(acts(7, 5, 4, 3, 2, 6), shop)
    assert found.winner.how == "kernel 4"
    assert shop.wanted[:2] in ([3, 4], [1, 3])
    told = {one.how: one.note for one in found.tried}
    assert any(note.endswith("times in a trial") for note in told.values())


async def test_one_that_cannot_be_made_or_does_not_run_is_out_alone() -> None:
    some = acts(7, 1, 4, 3, 2, 6)
    some["kernel 1"] = act(1, fails=(Stage.RUN, Cause.CRASHED))
    found = await selected(some, Shop(missing=4))
    assert found.winner.how == "kernel 3"
    assert "kernel 1 " in {one.how: one.note for one in found.tried}["kernel 1"]


async def test_where_kernels_are_far_behind_no_others_are_tried() -> None:
    shop = Shop()
    found = await selected(acts(1, 1, 20, 1, 1, 1), shop)
    assert found.winner.how == "original"
    assert shop.wanted == []


async def test_kernels_that_are_wrong_lead_nowhere_and_the_next_ones_do() -> None:
    """Nor do those that compute the same program, which need not be looked at."""

    def wrong(inputs: Any) -> tuple[Any, ...]:
        return (inputs[0] * np.float32(2.01),)

    some = acts(2, 1, 2, 5, 4, 3)
    some |= {f"kernel {at}": Act(seconds=at / 1e3, outputs=wrong) for at in (1, 2)}
    shop = Shop(first=3)
    found = await selected(some, shop, {1: 1, 2: 1, 3: 0})
    assert found.winner.how == "kernel 5"
    assert shop.wanted == [4, 5]
    told = {one.how: one.note for one in found.tried}
    assert told["kernel 1"].startswith("not as accurate")
    assert told["kernel 2"] == "out, as kernel 1 is, which computes the same"


async def test_where_the_maker_is_gone_the_race_goes_on() -> None:
    """What was compiled before is there still."""

    class Gone(Shop):
        async def neighbours(self, place: SchedulePoint) -> list[SchedulePoint]:
            raise OptimizeError("the process that rewrites it has died")

    found = await selected(acts(7, 5, 4, 3, 2, 6), Gone())
    assert found.winner.how == "kernel 2"


SOFT = """program soft(x: f32[3, 4]) {
  a = exp(x)
  return div(a, sum(a, axes=[1], keep=true))
}
"""


async def test_kernels_that_only_lack_numbers_are_watched_and_go_on() -> None:
    """So are those that trials find: where they lack numbers, the original is computed."""

    def soft(inputs: Any) -> tuple[Any, ...]:
        with np.errstate(all="ignore"):
            a = np.exp(inputs[0])
            return (a / a.sum(axis=1, keepdims=True),)

    def lacking(inputs: Any) -> tuple[Any, ...]:
        found = soft(inputs)[0].copy()
        found[0, 0] = np.inf
        return (found,)

    class Real(Shop):
        async def contender(self, place: SchedulePoint) -> CandidateSource:
            return real(await super().contender(place))

    def real(one: CandidateSource) -> CandidateSource:
        return replace(one, source="def soft(x):\n    return x\n", function="soft")

    def does(milliseconds: float, outputs: Any) -> Act:
        return Act(seconds=milliseconds / 1e3, outputs=outputs)

    acts = {"original": does(8, soft)} | {f"other {at}": does(9, soft) for at in range(3)}
    for at, milliseconds in enumerate((7, 5, 4, 3, 2, 6)):
        acts[f"kernel {at}"] = does(milliseconds, lacking)
        acts[f"kernel {at}, overflow guarded"] = does(milliseconds + 0.1, soft)
    plain = [CandidateSource(f"other {at}", 0, b"", f"# {at}", "soft", ()) for at in range(3)]
    original = CandidateSource("original", 0, b"", "# original", "soft", ())
    told: list[str] = []
    async with MockExecutor(acts) as executor:
        selector = Selector(executor, parse(SOFT), BUDGET, 0, False, told.append, maker=Real())
        found = await selector.select([original, real(kernel(2)), *plain])
    assert found.winner.how == "kernel 4, overflow guarded"
    notes = {one.how: one.note for one in found.tried}
    assert "not finite" in notes["kernel 2"]
    assert "kernel 4" not in notes, "what a trial finds is watched at once"


def place(number: int) -> SchedulePoint:
    """Predicted to take about as long as all others."""
    return SchedulePoint(0, ((number,),), (1.0 + number / 1000,))


class Line:
    """Kernels in a row; the one in the middle is the fastest, which no prediction says."""

    def __init__(self, length: int = 40, broken: int = -1) -> None:
        self.length, self.broken = length, broken
        self.tried: list[int] = []
        self.busy = 0

    async def neighbours(self, one: SchedulePoint) -> list[SchedulePoint]:
        ((at,),) = one.points
        return [place(near) for near in (at - 1, at + 1) if 0 <= near < self.length]

    async def time(self, one: SchedulePoint) -> float | None:
        ((at,),) = one.points
        self.tried.append(at)
        self.busy += 1
        await asyncio.sleep(0)
        assert self.busy == 1
        self.busy -= 1
        return None if at == self.broken else self.seconds(at)

    def seconds(self, at: int) -> float:
        return 1.0 + abs(at - self.length / 2)

    async def tuned(
        self, known: list[int], trials: int = 100, seconds: float = 60
    ) -> list[TimedKernel]:
        taken = {place(at): self.seconds(at) for at in known}
        return await tune_from_timings(taken, self.neighbours, self.time, trials, seconds)


async def test_trials_lead_where_the_prediction_does_not() -> None:
    """Downhill from what was known, and hardly anywhere else."""
    line = Line()
    found = await line.tuned([3, 12], trials=12)
    assert found[0].place == place(20)
    assert found == sorted(found, key=lambda one: one.seconds)
    assert set(range(13, 21)) <= set(line.tried)


async def test_of_several_kernels_the_long_one_is_tried_first() -> None:
    """What changes a kernel that takes next to nothing cannot gain much."""
    tried: list[SchedulePoint] = []

    async def neighbours(one: SchedulePoint) -> list[SchedulePoint]:
        short, long = (points[0] for points in one.points)
        others = [(short + 1, long), (short + 2, long), (short, long + 1), (short, long + 2)]
        return [SchedulePoint(0, ((a,), (b,)), (1e-6, 1e-3)) for a, b in others if max(a, b) < 3]

    async def time(one: SchedulePoint) -> float:
        tried.append(one)
        return 1.0

    await tune_from_timings(
        {SchedulePoint(0, ((0,), (0,)), (1e-6, 1e-3)): 1.0}, neighbours, time, 2, 60
    )
    assert [one.points for one in tried] == [((0,), (1,)), ((0,), (2,))]


async def test_a_kernel_in_parts_is_in_doubt_and_those_beside_it_are_not() -> None:
    """So the long one is split before the short one, though both are predicted to gain nothing."""
    tried: list[SchedulePoint] = []
    whole = SchedulePoint(0, ((0,), (0,)), (1e-6, 1e-3), parting=((0,), (0,)))
    short = SchedulePoint(0, ((3,), (4,), (0,)), (5e-7, 5e-7, 1e-3), parting=((1,), (0,)))
    long = SchedulePoint(0, ((0,), (3,), (4,)), (1e-6, 5e-4, 5e-4), parting=((0,), (1,)))

    async def neighbours(one: SchedulePoint) -> list[SchedulePoint]:
        return [short, long] if one == whole else []

    async def time(one: SchedulePoint) -> float:
        tried.append(one)
        return 1.0

    await tune_from_timings({whole: 1.0}, neighbours, time, 2, 60)
    assert tried == [long, short]


async def test_nothing_is_tried_twice_or_again() -> None:
    line = Line(8)
    found = await line.tuned([3])
    assert sorted(line.tried) == [0, 1, 2, 4, 5, 6, 7]
    assert {one.place for one in found} == {place(at) for at in line.tried}


async def test_what_does_not_run_is_no_end() -> None:
    """The search goes round it, or stays on its side."""
    line = Line(8, broken=5)
    found = await line.tuned([3, 7])
    assert sorted(line.tried) == [0, 1, 2, 4, 5, 6]
    assert place(5) not in {one.place for one in found}


@pytest.mark.parametrize("trials", [1, 3])
async def test_no_more_trials_than_are_allowed(trials: int) -> None:
    line = Line()
    assert len(await line.tuned([3], trials=trials)) == trials
    assert len(line.tried) == trials


async def test_no_trials_at_all() -> None:
    line = Line()
    assert await line.tuned([3], trials=0) == []
    assert line.tried == []


async def test_what_fails_is_heard() -> None:
    """A broken device is nothing to search around."""

    async def time(one: SchedulePoint) -> float | None:
        raise ConnectionError("the device is gone")

    with pytest.raises(Exception, match="the device is gone"):
        await tune_from_timings({place(3): 1.0}, Line().neighbours, time, 5, 60)
