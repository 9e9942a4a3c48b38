from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest
from trees import Endless, Judged, Stuck, Words

from aiosearch import AiosearchError, Limits, Pool, Search, SearchStatus
from aiosearch.events import AnyEvent, WorkReported
from aiosearch.testing import no_leaks


async def test_fifty_searches_share_one_pool_fairly() -> None:
    """Concurrent searches get like shares: none is far behind of what is done while all work."""
    nodes, before, after = [0] * 50, list[int](), list[int]()
    enough = asyncio.Event()

    async def one(number: int, pool: Pool) -> None:
        def listen(event: AnyEvent) -> None:
            if not isinstance(event, WorkReported) or enough.is_set():
                return
            nodes[number] += event.nodes
            if not before and all(nodes):
                before.extend(nodes)
            if before and sum(nodes) - sum(before) > 50 * 200_000:
                after.extend(nodes)
                enough.set()

        async with Search(Endless(), pool=pool, on=listen):
            await enough.wait()

    async with Pool(2) as pool:
        await asyncio.gather(*(one(number, pool) for number in range(50)))
    shares = [last - first for first, last in zip(before, after, strict=True)]
    assert min(shares) > sum(shares) / 50 / 4


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"workers": 4097}, "4096 workers at most, not 4097"),
        ({"workers": -1}, "0 or more, not -1"),
        ({"patience": float("nan")}, "patience must be above 0 seconds .* not nan"),
        ({"patience": 1e9}, "a day at most, not 1e"),
    ],
)
def test_what_no_machine_can_do_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(AiosearchError, match=told):
        Pool(**options)


async def test_a_pool_serves_one_search_after_the_other() -> None:
    """Workers stay; only the first search waits for their start."""
    async with Pool(2) as pool:
        pids = pool.pids
        for length in range(5):
            async with Search(Words(length=length), pool=pool) as search:
                result = await search.wait()
            assert result.statistics.nodes == Words(length=length).nodes
        assert pool.pids == pids


async def test_a_stuck_search_does_not_hold_the_others_up() -> None:
    """Its worker is ended with it, and what others had there is done again, once."""
    async with Pool(1) as pool:
        async with Search(Stuck(), pool=pool, limits=Limits(seconds=0.5)) as stuck:
            await stuck.wait()
        async with Search(Words(), pool=pool) as search:
            result = await search.wait()
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.nodes == Words().nodes


async def test_a_killed_worker_is_replaced_for_every_search() -> None:
    """All searches of the pool get their work back, and none counts it twice."""
    async with Pool(2) as pool:

        async def one() -> Any:
            async with Search(Words(letters=4, length=8), pool=pool) as search:
                return await search.wait()

        reported = asyncio.Event()
        searches = [asyncio.create_task(one()) for _ in range(3)]

        def listen(event: AnyEvent) -> None:
            if isinstance(event, WorkReported):
                reported.set()

        async with Search(Words(letters=4, length=9), pool=pool, on=listen) as search:
            await reported.wait()
            os.kill(pool.pids[0], signal.SIGKILL)
            result = await search.wait()
        assert result.statistics.nodes == Words(letters=4, length=9).nodes
        for other in await asyncio.gather(*searches):
            assert other.statistics.nodes == Words(letters=4, length=8).nodes


async def test_two_searches_share_one_verdict() -> None:
    """What z3 was asked for one search is remembered for the next."""
    async with Pool(1, cache=None) as pool:
        for _ in range(2):
            async with Search(Judged(length=4), pool=pool) as search:
                result = await search.wait()
        checks = result.statistics.checks
    assert checks is not None
    assert checks.checks == 9  # the sums 0 to 8
    assert checks.memory_hits == 9


async def test_private_verdicts_are_asked_for_by_each_worker_that_wants_to_know() -> None:
    """Nothing else changes: the nodes and the solutions are those of shared verdicts."""
    results = []
    for verdicts in ("shared", "private"):
        pool = Pool(2, cache=None, verdicts=verdicts)  # type: ignore[arg-type]
        search = Search(Judged(length=4), pool=pool, strategy="interleaved")
        async with pool, search:
            results.append(await search.wait())
    shared, private = [result.statistics for result in results]
    assert shared.checks is not None
    assert private.checks is not None
    assert shared.checks.checks == 9  # the sums 0 to 8
    assert 9 < private.checks.checks <= 18
    assert private.nodes == shared.nodes
    assert set(results[0].solutions) == set(results[1].solutions)


def test_verdicts_are_shared_or_private() -> None:
    """Anything else is told."""
    with pytest.raises(AiosearchError, match="must be 'shared' or 'private', not 'hidden'"):
        Pool(1, verdicts="hidden")  # type: ignore[arg-type]


async def test_each_worker_counts_what_was_said_and_taken() -> None:
    """Bytes are those of its messages; a steal is a request that it gave work for."""
    async with Pool(2) as pool, Search(Words(letters=4, length=8), pool=pool) as search:
        found = (await search.wait()).statistics
    assert sum(worker.steals for worker in found.workers) > 0
    assert all(worker.bytes > worker.messages > worker.steals for worker in found.workers)


async def test_what_stays_in_one_process_has_no_bytes() -> None:
    """With workers=0 messages are handed over, not written."""
    async with Pool(0) as pool, Search(Words(length=5), pool=pool) as search:
        (worker,) = (await search.wait()).statistics.workers
    assert worker.messages > 0
    assert worker.bytes == worker.steals == 0


async def test_nothing_is_left_behind() -> None:
    """No process, file or task outlives a pool."""
    async with no_leaks(), Pool(2) as pool, Search(Judged(length=3), pool=pool) as search:
        await search.wait()


async def test_closing_a_pool_ends_its_searches() -> None:
    """A search on a closed pool fails with a sentence, and does not wait for ever."""
    pool = Pool(1)
    await pool.__aenter__()
    async with Search(Endless(), pool=pool) as search:
        await pool.close()
        with pytest.raises(AiosearchError, match="closed while the search ran"):
            await search.wait()


async def test_a_pool_must_be_open() -> None:
    """Using one outside its block is a mistake that is told."""
    with pytest.raises(AiosearchError, match="the pool is not open"):
        async with Search(Words(), pool=Pool(1)):
            pass


def test_workers_and_pool_exclude_each_other() -> None:
    """A pool brings its own workers."""
    with pytest.raises(AiosearchError, match="not both"):
        Search(Words(), pool=Pool(1), workers=2)
