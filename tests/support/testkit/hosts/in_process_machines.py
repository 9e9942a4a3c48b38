"""Machines that serve a search from inside this process, with real worker processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from testkit.hosts.in_process_links import PairListener

from aiosearch import Pool, Search
from aiosearch.engine.explore.claims import Claim, SharedClaims
from aiosearch.remote.agent import Agent
from aiosearch.remote.notebooks import Recall
from aiosearch.testing import no_leaks

MACHINES: list[Machine] = []


class Machine:
    """A host that serves, and its end of the link."""

    def __init__(
        self,
        listener: PairListener,
        workers: int = 1,
        patience: float = 5.0,
        recall: Recall | None = None,
    ) -> None:
        self.link = listener.connect()
        self.agent = Agent(self.link, workers, 1, "elsewhere", patience, recall)
        self.serving = asyncio.get_running_loop().create_task(self.agent.serve())
        MACHINES.append(self)

    def knows(self, session: int, keys: bytes) -> bool:
        """Whether its table holds all of these keys; leaves it as it is."""
        if session not in self.agent._tables._tables:
            return False
        table = SharedClaims.attach(self.agent._tables._tables[session].path, 1000)
        pieces = [keys[start : start + 16] for start in range(0, len(keys), 16)]
        found = {table.claim(piece) for piece in pieces}
        table.release(1000, 0)
        table.close()
        return found == {Claim.DUPLICATE}

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self.agent._children.values() if child is not None]


@asynccontextmanager
async def pool(
    workers: int = 0, listener: PairListener | None = None, **options: Any
) -> AsyncIterator[tuple[Pool, PairListener]]:
    listener = listener or PairListener()
    MACHINES.clear()
    async with no_leaks():
        async with Pool(workers=workers, cache=None, listener=listener, **options) as opened:
            yield opened, listener
        if MACHINES:
            await asyncio.wait([machine.serving for machine in MACHINES])


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.005)


async def explored(pool: Pool, problem: Any, **options: Any) -> Any:
    async with Search(problem, pool=pool, **options) as search:
        async with asyncio.timeout(30):
            return await search.wait()
