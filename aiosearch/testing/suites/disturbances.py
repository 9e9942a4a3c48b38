"""Checks that a search ends, fails and survives as it should, whoever deals out the work."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from ...errors import ProblemError
from ...events import AnyEvent, SearchFinished, TaskAssigned, WorkerJoined, WorkReported
from ...limits import Limits
from ...pool import Pool
from ...result import SearchStatus
from ..problems import Balanced, Failing, Random, Slow
from .subject import StrategyUnderTest, agree, agree_on_answers, agree_on_end, expected

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


# Four children a node and 40 levels: no machine comes to its end
ENDLESS = Slow(Random(depth=40))
LONGEST_END = 2.0
"""Seconds in which a search has to be gone; far more than it takes on an idle machine."""
# Below `MOST_DEATHS`, after which a task is given up as what kills workers
MOST_KILLED = 3


class EventWatch:
    """A hook that knows the workers' processes, and when a search is in the middle of its work."""

    def __init__(self) -> None:
        self.pids: dict[int, int] = {}
        self.explored = asyncio.Event()
        """Set when nodes have been explored, or the search has failed before."""

    def __call__(self, event: AnyEvent) -> None:
        match event:
            case WorkerJoined(worker=worker, pid=pid, host="") if pid:
                self.pids[worker] = pid
            case WorkReported(nodes=nodes) if nodes:
                self.explored.set()
            case SearchFinished():
                self.explored.set()


class Killer(EventWatch):
    """Kills the worker that gets the root, and then up to `MOST_KILLED` in the middle of their
    work."""

    def __init__(self) -> None:
        super().__init__()
        self.killed = 0

    def __call__(self, event: AnyEvent) -> None:
        super().__call__(event)
        match event:
            # The first task is the root: all of the search is in the victim's hands
            case TaskAssigned(worker=worker) if not self.killed:
                self._kill(worker)
            case WorkReported(worker=worker, kept=subtrees) if (
                subtrees and self.killed < MOST_KILLED
            ):
                self._kill(worker)

    def _kill(self, worker: int) -> None:
        if pid := self.pids.pop(worker, None):
            self.killed += 1
            os.kill(pid, signal.SIGKILL)


async def leaving_ends(subject: StrategyUnderTest, workers: int) -> None:
    """Leaves a search in the middle: it is over soon, with every process."""
    watch = EventWatch()
    opened = subject.search(ENDLESS, workers=workers, on=watch)
    async with _ending_soon() as leave, opened as search:
        await watch.explored.wait()
        leave()
    agree_on_end("left in the middle", search.result, SearchStatus.CANCELLED)
    _agree_gone(watch)


async def cancelling_ends(subject: StrategyUnderTest, workers: int) -> None:
    """Cancels the task that waits for a search: the search is over as soon."""
    watch = EventWatch()
    search = subject.search(ENDLESS, workers=workers, on=watch)

    async def body() -> None:
        async with search:
            await search.wait()

    task = asyncio.create_task(body())
    task.add_done_callback(lambda _: watch.explored.set())
    await watch.explored.wait()
    async with _ending_soon() as leave:
        leave()
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        raise task.exception() or AssertionError("a search of an endless tree came to an end")
    agree_on_end("cancelled in the middle", search.result, SearchStatus.CANCELLED)
    _agree_gone(watch)


async def pool_goes_on(subject: StrategyUnderTest, workers: int) -> None:
    """Stops a search on a pool in the middle: the pool does the next one as if nothing were."""
    watch = EventWatch()
    async with Pool(workers, cache=None) as pool:
        async with subject.search(ENDLESS, pool=pool, on=watch) as search:
            await watch.explored.wait()
            search.stop()
            agree_on_end("stopped", await search.wait(), SearchStatus.CANCELLED)
        async with subject.search(Balanced(), pool=pool) as search:
            result = await search.wait()
    agree_on_answers("the next search on the pool", result, expected(Balanced()))


async def deaths_lose_nothing(subject: StrategyUnderTest, workers: int) -> None:
    """Kills workers in the middle: every node still counts once, and every solution is found."""
    problem = Slow(Random(depth=8), seconds=0.0005 * min(workers, 4))
    killer = Killer()
    async with subject.search(problem, workers=workers, cache=None, on=killer) as search:
        result = await search.wait()
    what = f"after {killer.killed} of {workers} workers were killed"
    agree(f"{what}: a death was noticed is", result.statistics.worker_deaths > 0, True)
    agree_on_end(what, result, SearchStatus.COMPLETE)
    agree_on_answers(what, result, expected(problem))


async def errors_name_the_node(subject: StrategyUnderTest, workers: int) -> None:
    """Raises in `expand`: the search fails with the node's path, and the pool lives on."""
    async with Pool(workers, cache=None) as pool:
        try:
            async with subject.search(Failing(), pool=pool) as search:
                await search.wait()
        except ProblemError as error:
            _agree_on_failure(error)
        else:
            raise AssertionError("an expand raised, and the search did not fail")
        # Both explorers give up a subtree in their own way
        for order in ("depth-first", "breadth-first"):
            await _skip(subject, pool, order)


async def limits_hold(subject: StrategyUnderTest, workers: int) -> None:
    """Sets `Limits(nodes=...)`: so many are explored, to the node."""
    async with Pool(workers, cache=None) as pool:
        for nodes in (1, 10, 777, 2_000):
            limits = Limits(nodes=nodes)
            async with subject.search(Random(), pool=pool, limits=limits) as search:
                result = await search.wait()
            agree_on_end(f"limited to {nodes} nodes", result, SearchStatus.LIMIT)
            agree(f"limited to {nodes} nodes: explored are", result.statistics.nodes, nodes)


async def journals_resume(subject: StrategyUnderTest, workers: int) -> None:
    """Stops at a limit and takes the journal up with `resume`: nothing is lost and nothing done
    twice."""
    with TemporaryDirectory() as folder:
        arguments = {"workers": workers, "cache": None, "journal": Path(folder) / "journal"}
        limits = Limits(nodes=777)
        async with subject.search(Random(), limits=limits, **arguments) as search:
            agree_on_end("to be resumed", await search.wait(), SearchStatus.LIMIT)
        async with subject.search(Random(), resume=True, **arguments) as search:
            result = await search.wait()
    agree_on_end("resumed", result, SearchStatus.COMPLETE)
    agree_on_answers("resumed", result, expected(Random()))


async def _skip(subject: StrategyUnderTest, pool: Pool, order: str) -> None:
    problem = Failing()
    async with subject.search(problem, pool=pool, order=order, on_error="skip") as search:
        result = await search.wait()
    left = problem.left
    # Rounded up: number 0 is hit as well
    hits = -(-(left.tree.branching**left.level) // left.every)
    agree("with on_error='skip': skipped subtrees are", result.statistics.skipped, hits)
    agree_on_answers(f"with on_error='skip' and {order}", result, expected(problem))


def _agree_on_failure(error: ProblemError) -> None:
    agree("the method that failed is", error.method, "expand")
    left, node = Failing().left, (0, 0)
    for step in error.path or ():
        node = left.tree.expand(node)[step]
    agree(f"the node at {error.path} being one that raises is", left.hit(node), True)


@asynccontextmanager
async def _ending_soon() -> AsyncIterator[Any]:
    """Measures from the call of what it gives to the end of the block; raises after
    `LONGEST_END`."""
    started = 0.0

    def leave() -> None:
        nonlocal started
        started = time.monotonic()

    yield leave
    seconds = time.monotonic() - started
    if seconds > LONGEST_END:
        raise AssertionError(f"it took {seconds:.1f} s to end the search")


def _agree_gone(watch: EventWatch) -> None:
    agree("worker processes still there are", [p for p in watch.pids.values() if _there(p)], [])


def _there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
