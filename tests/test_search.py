from __future__ import annotations

import asyncio
import time
from typing import Any

import anyio
import pytest
from trees import Endless, Hungry, Judged, Priced, Scalars, Single, Streaming, Stuck, Waiting, Words

import aiosearch
from aiosearch import AiosearchError, Limits, Search, SearchStatus
from aiosearch.events import AnyEvent, WorkReported

ALL_WORDS = {(a, b, c) for a in range(3) for b in range(3) for c in range(3)}
FEW = Words(length=3)


@pytest.mark.parametrize("workers", [0, 1, 2])
async def test_iterating_gives_every_new_solution_once(workers: int) -> None:
    """Without costs, every distinct solution is an improvement."""
    async with Search(FEW, workers=workers) as search:
        found = [solution async for solution in search]
    assert len(found) == 27
    assert set(found) == ALL_WORDS
    assert search.result.status is SearchStatus.COMPLETE
    assert set(search.result.solutions) == ALL_WORDS


@pytest.mark.parametrize("workers", [0, 2])
async def test_with_costs_only_better_solutions_are_yielded(workers: int) -> None:
    """The iterator's costs fall strictly, and the last one is the best."""
    problem = Priced(seed=3, depth=8)
    async with Search(problem, workers=workers) as search:
        costs = [problem.cost(solution) async for solution in search]
    assert costs == sorted(set(costs), reverse=True)
    assert costs[-1] == search.result.best_cost
    assert problem.cost(search.result.best) == search.result.best_cost


async def test_two_iterators_see_the_same() -> None:
    """Iterating does not use solutions up."""
    async with Search(FEW, workers=0) as search:
        one = [solution async for solution in search]
        other = [solution async for solution in search]
    assert one == other


def test_solve_is_the_synchronous_twin() -> None:
    """solve returns the result that the search ends with."""
    result = aiosearch.solve(FEW, workers=0)
    assert set(result.solutions) == ALL_WORDS
    assert result.statistics.nodes == FEW.nodes


async def test_solve_works_inside_a_running_loop() -> None:
    """A notebook has a loop already, and solve waits beside it."""
    assert len(aiosearch.solve(FEW, workers=1).solutions) == 27


async def test_the_result_is_valid_before_the_end_and_after_a_cancel() -> None:
    """A cancelled search keeps what it found, and says how it stands."""
    reported = asyncio.Event()

    def listen(event: AnyEvent) -> None:
        if isinstance(event, WorkReported):
            reported.set()

    async with Search(Endless(), workers=1, on=listen) as search:
        assert search.result.status is SearchStatus.RUNNING
        await reported.wait()
        with anyio.move_on_after(0.01):
            await search.wait()
    result = search.result
    assert result.status is SearchStatus.CANCELLED
    assert result.reason == "left before it was complete"
    assert result.statistics.nodes > 0


@pytest.mark.parametrize("problem", [Endless(), Stuck(), Waiting(seconds=30)])
async def test_cancelling_the_task_ends_the_search_with_all_its_processes(problem: Any) -> None:
    """Cancellation reaches into a search, whatever its problem is doing just then."""
    opened = asyncio.Event()
    search = Search(problem, workers=2)

    async def run() -> None:
        async with search:
            opened.set()
            await search.wait()

    task = asyncio.create_task(run())
    await opened.wait()
    await asyncio.sleep(0.3)
    pids = search._pool.pids
    assert len(pids) == 2
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not [pid for pid in pids if _exists(pid)]
    assert search.result.status is SearchStatus.CANCELLED


def _exists(pid: int) -> bool:
    from pathlib import Path

    return Path(f"/proc/{pid}").exists()


async def test_stop_ends_the_wait() -> None:
    """Anyone who holds the search may stop it and give a reason."""
    async with Search(Endless(), workers=1) as search:
        search.stop("seen enough")
        result = await search.wait()
    assert (result.status, result.reason) == (SearchStatus.CANCELLED, "seen enough")


@pytest.mark.parametrize("workers", [0, 1, 2])
async def test_the_node_limit_is_met_to_the_node(workers: int) -> None:
    """Grants to the workers never add up to more than the limit."""
    async with Search(Endless(), workers=workers, limits=Limits(nodes=12_345)) as search:
        result = await search.wait()
    assert result.status is SearchStatus.LIMIT
    assert result.statistics.nodes == 12_345


async def test_a_limit_larger_than_the_tree_changes_nothing() -> None:
    """A search that ends before its limit is complete."""
    result = await _wait(Words(), workers=2, limits=Limits(nodes=10_000, seconds=60))
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.nodes == Words().nodes


async def test_the_limit_on_seconds() -> None:
    """Time is up soon after it is up."""
    start = time.monotonic()
    result = await _wait(Endless(), workers=0, limits=Limits(seconds=0.2))
    assert result.status is SearchStatus.LIMIT
    assert "0.2 seconds" in result.reason
    assert 0.2 <= time.monotonic() - start < 5


async def test_the_limit_on_solutions_is_exact() -> None:
    """No more solutions than asked for are kept, whatever one report brings."""
    result = await _wait(Words(), workers=1, limits=Limits(solutions=10))
    assert (result.status, len(result.solutions)) == (SearchStatus.LIMIT, 10)


async def test_the_limit_on_memory() -> None:
    """A search that eats memory is stopped, and its processes are gone."""
    result = await _wait(Hungry(), workers=1, limits=Limits(memory=300_000_000))
    assert result.status is SearchStatus.LIMIT
    assert "memory" in result.reason


async def test_the_limit_on_checks() -> None:
    """z3 is asked no more once the budget is spent, give or take what is in flight."""
    problem = Judged(letters=9, length=4)
    result = await _wait(problem, workers=0, limits=Limits(checks=5), cache=None)
    assert result.status in (SearchStatus.LIMIT, SearchStatus.COMPLETE)
    assert result.statistics.checks is not None


@pytest.mark.parametrize("limit", [{"seconds": 0}, {"nodes": -1}, {"memory": "1GB"}])
def test_a_senseless_limit_is_refused(limit: dict[str, Any]) -> None:
    """A budget must be a positive number."""
    with pytest.raises(aiosearch.AiosearchError, match="must be a positive number"):
        Limits(**limit)
    with pytest.raises(aiosearch.AiosearchError, match="limit nodes must be a whole number"):
        Limits(nodes=1.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("problem", [Waiting(length=4), Streaming(length=4)])
@pytest.mark.parametrize("workers", [0, 2])
async def test_expand_may_be_asynchronous(problem: Words, workers: int) -> None:
    """A coroutine or an async generator serves as well as a plain method."""
    result = await _wait(problem, workers=workers)
    assert len(result.solutions) == 81
    assert result.statistics.nodes == problem.nodes


async def test_asynchronous_expansions_overlap() -> None:
    """Waiting for one node does not keep the next from being asked for."""
    problem = Single(letters=8, length=3, lanes=8)
    await _wait(problem, workers=0)
    assert max(problem.widths) == 8


@pytest.mark.parametrize("workers", [0, 2])
async def test_no_more_expansions_overlap_than_a_problem_says(workers: int) -> None:
    """Each process keeps to the problem's `lanes`."""
    result = await _wait(Single(length=4), workers=workers)
    assert len(result.solutions) == 81


@pytest.mark.parametrize("lanes", [0, "2", 1.5])
async def test_lanes_are_a_number_of_tasks(lanes: Any) -> None:
    with pytest.raises(aiosearch.AiosearchError, match=r"Single\.lanes must be a number of tasks"):
        Search(Single(lanes=lanes))


async def test_opening_twice_is_refused() -> None:
    """A search runs once."""
    search = Search(FEW, workers=0)
    async with search:
        await search.wait()
    with pytest.raises(aiosearch.AiosearchError, match="opened once"):
        async with search:
            pass


@pytest.mark.parametrize(
    ("problem", "options", "message"),
    [
        (Words, {}, "give an instance"),
        (object(), {}, "lacks root"),
        (FEW, {"order": "sideways"}, "unknown order 'sideways'"),
        (FEW, {"order": "best-first"}, "priority"),
        (FEW, {"order": "branch-and-bound"}, "a method bound and a method cost"),
        (FEW, {"strategy": "clairvoyant"}, "unknown strategy 'clairvoyant'; installed are"),
        (FEW, {"workers": -1}, "workers must be 0 or more"),
        (FEW, {"workers": "2"}, "workers must be 0 or more, not '2'"),
        (FEW, {"workers": True}, "workers must be 0 or more, not True"),
        (FEW, {"pool": 3}, "pool must be a Pool, not 3"),
        (FEW, {"journal": 3}, "journal must be a path, not 3"),
        (FEW, {"cache": 5}, "cache must be a path, 'default' or None, not 5"),
        (FEW, {"on": 5}, "on must be a hook or several, not 5"),
        (FEW, {"seed": "a"}, "seed must be a whole number, not 'a'"),
        (FEW, {"progress_seconds": -1}, "progress_seconds must be a number of seconds above 0"),
        (FEW, {"on_unknown": "panic"}, "on_unknown must be one of"),
        (FEW, {"on_error": "panic"}, "on_error must be one of"),
        (FEW, {"resume": True}, "needs the journal"),
        (FEW, {"strategy": "queue", "options": {"depth": 3}}, "refuses its options"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(
    problem: Any, options: dict[str, Any], message: str
) -> None:
    """Mistakes are told before anything starts."""
    with pytest.raises(aiosearch.AiosearchError, match=message):
        Search(problem, **options)


async def _wait(problem: Any, **options: Any) -> aiosearch.Result[Any]:
    async with Search(problem, **options) as search:
        return await search.wait()


class AsyncSolutions(Words):
    """Waits where nobody waits for it."""

    async def solutions(self, node: Any) -> Any:  # type: ignore[override]  # the mistake
        return []


def test_only_expand_may_be_asynchronous() -> None:
    """Said at once, and not as a coroutine that nobody awaited."""
    with pytest.raises(AiosearchError, match=r"AsyncSolutions\.solutions is declared with async"):
        Search(AsyncSolutions())


@pytest.mark.parametrize("workers", [0, 2])
async def test_scalars_of_numpy_travel_as_pythons_own(workers: int) -> None:
    async with Search(Scalars(), workers=workers) as search:
        result = await search.wait()
    assert result.statistics.nodes == 1 + 3 + 9 + 27
    assert sorted(result.solutions) == [(3, 0.0), (3, 1.0), (3, 2.0)]
    assert {type(part) for solution in result.solutions for part in solution} == {int, float}
