"""A pool for one run, and the machines that join it, all started before its time counts.

For a strategy that needs machines, they are processes on loopback that join as users' would.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from ..errors import WorkerError
from ..limits import Limits
from ..pool import Pool
from ..problem import AnyProblem
from ..processes.child import Child
from ..remote.links import find_transport, has_transport
from ..search import Search
from ..workloads.uts import TREES
from .arms import Arm

if TYPE_CHECKING:
    from ..remote.links import Listener

MODULE = "aiosearch.cli.child_main"
LEAVE_SECONDS = 5.0
"""Seconds that a machine may take to leave before it is ended."""


@dataclass
class JoiningMachines:
    """The machines, from the time when `invite` asked them to join."""

    children: list[Child] = field(default_factory=list)
    missed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when one of them has gone."""
    _gone: int = 0
    _all_gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def invite(self, invitation: str, checkers: int) -> None:
        """Types on a new machine what it takes to join with one worker."""
        # Without the program's name: the child runs the console script's module itself
        words = shlex.split(invitation)[1:]
        words += ["--workers", "1", "--checkers", str(checkers)]
        words += ["--name", f"guest {len(self.children) + 1}"]
        self.children.append(
            await Child.spawn(MODULE, lambda frame: None, self._left, arguments=tuple(words))
        )

    def _left(self) -> None:
        self._gone += 1
        self.missed.set()
        if self._gone == len(self.children):
            self._all_gone.set()

    async def close(self) -> None:
        """Waits until they have gone, and ends those that have not after `LEAVE_SECONDS`."""
        if self.children:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), LEAVE_SECONDS)
        for child in self.children:
            child.kill()
            await child.reap()


@asynccontextmanager
async def joining_machines() -> AsyncIterator[JoiningMachines]:
    """Machines that may be invited; at the end they have gone."""
    machines = JoiningMachines()
    try:
        yield machines
    finally:
        with anyio.CancelScope(shield=True):
            await machines.close()


JOIN_SECONDS = 60.0
WARMING = TREES["medium"].problem
"""Explored before anything counts, until every worker has had a part of it. Hosts have it too."""


@asynccontextmanager
async def ready_pool(problem: AnyProblem, arm: Arm) -> AsyncIterator[Pool]:
    """A `Pool` whose processes have all started, with the problem's module loaded in each."""
    checkers = 1 if arm.solver == "locked" else arm.workers
    listener = _listener(arm)
    async with AsyncExitStack() as stack:
        come = await stack.enter_async_context(joining_machines())
        unopened = Pool(
            0 if listener else arm.workers,
            # The host has one z3 process, and each machine but the last brings another
            checkers=1 if listener else checkers,
            cache=None,
            listener=listener,
            verdicts=arm.verdicts,
        )
        pool = await stack.enter_async_context(unopened)
        if listener is not None and invites(listener):
            for number in range(1, arm.workers + 1):
                await come.invite(listener.invitation, checkers=int(number < checkers))
        await _all_came(pool, arm, come)
        await _warm_up(problem, pool, arm)
        yield pool


async def _all_came(pool: Pool, arm: Arm, come: JoiningMachines) -> None:
    """Waits until every worker has had a part in a search, for `JOIN_SECONDS` at most."""
    working = asyncio.create_task(_work_together(pool, arm.workers))
    missed = asyncio.create_task(come.missed.wait())
    try:
        await asyncio.wait(
            (working, missed), timeout=JOIN_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        if not working.done():
            raise WorkerError(f"not all of {arm.workers} workers came to serve {arm.strategy}")
        working.result()
    finally:
        for task in (working, missed):
            task.cancel()
        await asyncio.gather(working, missed, return_exceptions=True)


async def _warm_up(problem: AnyProblem, pool: Pool, arm: Arm) -> None:
    async with Search(problem, pool=pool, order=arm.order, limits=Limits(nodes=1)) as search:
        await search.wait()
    await _work_together(pool, arm.workers)  # by now each has loaded the problem
    if hasattr(problem, "obligation"):
        await (await pool.ready_verifier()).warm_up()


async def _work_together(pool: Pool, workers: int) -> None:
    """Searches `WARMING` until so many workers had a part in it."""
    working = 0
    while working < workers:
        async with Search(WARMING, pool=pool) as search:
            result = await search.wait()
        working = sum(worker.nodes > 0 for worker in result.statistics.workers)


def invites(listener: Listener) -> bool:
    """Whether machines join it by `aiosearch worker`; other listeners bring theirs."""
    return listener.invitation.startswith("aiosearch worker ")


def _listener(arm: Arm) -> Listener | None:
    if not has_transport(arm.strategy):
        return None
    return find_transport(arm.strategy).listener(None, None)
