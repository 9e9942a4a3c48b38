"""Kernels are tuned by a search that measures; here the device is a function."""

from __future__ import annotations

import asyncio

import pytest

from aiosearch.optimizer.places import Place
from aiosearch.optimizer.tuning import Timed, tuned


def place(number: int) -> Place:
    """Predicted to take about as long as all others."""
    return Place(0, ((number,),), (1.0 + number / 1000,))


class Line:
    """Kernels in a row; the one in the middle is the fastest, which no prediction says."""

    def __init__(self, length: int = 40, broken: int = -1) -> None:
        self.length, self.broken = length, broken
        self.tried: list[int] = []
        self.busy = 0

    async def beside(self, one: Place) -> list[Place]:
        ((at,),) = one.points
        return [place(near) for near in (at - 1, at + 1) if 0 <= near < self.length]

    async def time(self, one: Place) -> float | None:
        ((at,),) = one.points
        self.tried.append(at)
        self.busy += 1
        await asyncio.sleep(0)
        assert self.busy == 1
        self.busy -= 1
        return None if at == self.broken else self.seconds(at)

    def seconds(self, at: int) -> float:
        return 1.0 + abs(at - self.length / 2)

    async def tuned(self, known: list[int], trials: int = 100, seconds: float = 60) -> list[Timed]:
        taken = {place(at): self.seconds(at) for at in known}
        return await tuned(taken, self.beside, self.time, trials, seconds)


async def test_trials_lead_where_the_prediction_does_not() -> None:
    """Downhill from what was known, and hardly anywhere else."""
    line = Line()
    found = await line.tuned([3, 12], trials=12)
    assert found[0].place == place(20)
    assert found == sorted(found, key=lambda one: one.seconds)
    assert set(range(13, 21)) <= set(line.tried)


async def test_of_several_kernels_the_long_one_is_tried_first() -> None:
    """What changes a kernel that takes next to nothing cannot gain much."""
    tried: list[Place] = []

    async def beside(one: Place) -> list[Place]:
        short, long = (points[0] for points in one.points)
        others = [(short + 1, long), (short + 2, long), (short, long + 1), (short, long + 2)]
        return [Place(0, ((a,), (b,)), (1e-6, 1e-3)) for a, b in others if max(a, b) < 3]

    async def time(one: Place) -> float:
        tried.append(one)
        return 1.0

    await tuned({Place(0, ((0,), (0,)), (1e-6, 1e-3)): 1.0}, beside, time, 2, 60)
    assert [one.points for one in tried] == [((0,), (1,)), ((0,), (2,))]


async def test_a_kernel_in_parts_is_in_doubt_and_those_beside_it_are_not() -> None:
    """So the long one is split before the short one, though both are predicted to gain nothing."""
    tried: list[Place] = []
    whole = Place(0, ((0,), (0,)), (1e-6, 1e-3), parting=((0,), (0,)))
    short = Place(0, ((3,), (4,), (0,)), (5e-7, 5e-7, 1e-3), parting=((1,), (0,)))
    long = Place(0, ((0,), (3,), (4,)), (1e-6, 5e-4, 5e-4), parting=((0,), (1,)))

    async def beside(one: Place) -> list[Place]:
        return [short, long] if one == whole else []

    async def time(one: Place) -> float:
        tried.append(one)
        return 1.0

    await tuned({whole: 1.0}, beside, time, 2, 60)
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

    async def time(one: Place) -> float | None:
        raise ConnectionError("the device is gone")

    with pytest.raises(Exception, match="the device is gone"):
        await tuned({place(3): 1.0}, Line().beside, time, 5, 60)
