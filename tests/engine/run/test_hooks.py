from __future__ import annotations

import asyncio
import logging

import pytest
from trees import Words

from aiosearch import Search, SearchStatus
from aiosearch.events import AnyEvent, Improved, Progress, SearchFinished, SearchStarted
from aiosearch.workloads import TSP


async def test_hooks_hear_everything_in_order() -> None:
    """The first event is the start, the last the end, and each solution comes between."""
    heard: list[AnyEvent] = []
    async with Search(Words(), workers=1, on=heard.append) as search:
        await search.wait()
    assert isinstance(heard[0], SearchStarted)
    assert isinstance(heard[-1], SearchFinished)
    numbers = [event.number for event in heard if isinstance(event, Improved)]
    assert numbers == list(range(1, 3**6 + 1))


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_hook_that_raises_never_hurts_the_search(
    asynchronous: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged once and counted, and the others hear everything."""
    heard: list[AnyEvent] = []

    def fail(event: AnyEvent) -> None:
        raise RuntimeError("no ears")

    async def fail_later(event: AnyEvent) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("no ears")

    hook = fail_later if asynchronous else fail
    with caplog.at_level(logging.ERROR, "aiosearch"):
        async with Search(Words(length=3), workers=1, on=[hook, heard.append]) as search:
            result = await search.wait()
    assert result.status is SearchStatus.COMPLETE
    assert search.statistics().hook_errors > 10
    assert len([event for event in heard if isinstance(event, Improved)]) == 27
    assert [record.message for record in caplog.records] == [
        "a hook raised; the search goes on, and its later errors are only counted"
    ]


async def test_a_hook_may_stop_the_search() -> None:
    """Hooks are called on the loop, and may use the search."""

    def enough(event: AnyEvent) -> None:
        if isinstance(event, Improved) and event.number == 5:
            search.stop("five are enough")

    async with Search(Words(letters=4, length=9), workers=1, on=enough) as search:
        result = await search.wait()
    assert (result.status, result.reason) == (SearchStatus.CANCELLED, "five are enough")


async def test_a_hook_may_stop_it_where_the_best_cost_is_near_enough_to_the_bound() -> None:
    """The bound is what no cost is below, so that the gap says how much could be gained."""

    def near_enough(event: AnyEvent) -> None:
        if isinstance(event, Progress) and event.bound is not None and event.best_cost is not None:
            assert event.bound <= event.best_cost
            if event.best_cost - event.bound <= 0.2 * event.best_cost:
                search.stop("within 20 %")

    problem = TSP(40, 3)
    async with Search(problem, workers=0, on=near_enough, progress_seconds=0.01) as search:
        result = await search.wait()
    assert (result.status, result.reason) == (SearchStatus.CANCELLED, "within 20 %")
    assert result.best_cost is not None
    assert result.best_cost <= problem.bound(problem.root()) * 1.25


async def test_a_burst_of_events_does_not_hold_up_the_loop() -> None:
    """However many solutions one report holds, other tasks get their turn between them."""
    turns = 0
    seen: list[int] = []

    async def probe() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    def busy(event: AnyEvent) -> None:
        if isinstance(event, Improved):
            sum(range(1000))
            seen.append(turns)

    watcher = asyncio.create_task(probe())
    async with Search(Words(letters=4, length=7), workers=1, on=busy) as search:
        await search.wait()
    watcher.cancel()
    assert len(seen) == 4**7
    assert seen[-1] - seen[0] > 20
