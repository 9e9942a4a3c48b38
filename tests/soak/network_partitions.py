"""Three hosts in network namespaces, of which some are cut off while they search."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiosearch.workloads import Lopsided

sys.path.append(str(Path(__file__).parents[1] / "support"))

from testkit.hosts.network_namespaces import ForbiddenError, Host, network

TREE = Lopsided(height=38)
PORT = 7000
LEAST, MOST = 0.1, 3.0
"""How long a cut lasts, in patiences: some hosts are given up, and some come back before."""

Way = tuple[Callable[[], None], Callable[[], None]]
"""To cut a host off, or half of it, and back."""


def forbidden() -> str:
    """Why this machine makes no network namespaces; empty where it does."""
    try:
        with network(1):
            return ""
    except ForbiddenError as error:
        return str(error)


def ways(one: Host, others: list[Host]) -> tuple[Way, ...]:
    """By the switch, at its own end, so that it only hears, and so that it is only heard."""

    def each(does: Callable[[Host], None]) -> Callable[[], None]:
        def to_all() -> None:
            for other in others:
                does(other)

        return to_all

    return (
        (one.cut_off, one.join),
        (one.unplug, one.plug),
        (each(one.mute), each(one.unmute)),
        (each(lambda other: other.mute(one)), each(lambda other: other.unmute(one))),
    )


@dataclass
class Told:
    """What the search has told so far."""

    nodes: int = 0
    solutions: list[int] = field(default_factory=list)
    given_up: int = 0
    finished: dict[str, Any] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def hear(self, lines: asyncio.StreamReader) -> None:
        async for line in lines:
            self._take(json.loads(line))
            self.news.set()

    def _take(self, event: dict[str, Any]) -> None:
        match event["type"]:
            case "WorkReported":
                self.nodes += event["nodes"]
            case "Improved":
                self.solutions.append(event["solution"])
            case "Warned":
                self.given_up += "is gone" in event["message"]
            case "SearchFinished":
                self.finished = event

    async def explored(self, share: float) -> None:
        """Waits until a share of the tree is explored, or all there is to be."""
        while self.nodes < share * TREE.nodes and not self.finished:
            self.news.clear()
            await self.news.wait()

    @property
    def wrong(self) -> list[str]:
        found = []
        if self.finished.get("nodes") != TREE.nodes:
            found.append(f"{self.finished.get('nodes')} nodes, not {TREE.nodes}")
        if sorted(self.solutions) != list(TREE.answers):
            found.append(f"solutions {self.solutions}")
        return found


async def partitioned(folder: Path, seed: str, patience: float) -> tuple[list[str], int]:
    """One search, whose hosts serve it alone; gives what is wrong, and how many were given up."""
    drawn = random.Random(seed)
    told = Told()
    with network(3) as hosts:
        async with _started(folder, hosts, patience) as search:
            assert search.stdout is not None
            hearing = asyncio.create_task(told.hear(search.stdout))
            await told.explored(drawn.uniform(0.001, 0.6))
            for one in drawn.sample(hosts, drawn.choice((1, 1, 2))):
                others = [host for host in hosts if host is not one]
                cut, mend = drawn.choice(ways(one, others))
                await asyncio.to_thread(cut)
                await asyncio.sleep(drawn.uniform(LEAST, MOST) * patience)
                await asyncio.to_thread(mend)
            await hearing
            await search.wait()
    return told.wrong, told.given_up


@asynccontextmanager
async def _started(
    folder: Path, hosts: tuple[Host, ...], patience: float
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The search on the first host, and a worker on each of the others."""
    searching, *serving = hosts
    address = f"{searching.address}:{PORT}"
    more = ("--token-file", str(folder / "token"), "--patience", str(patience))
    words = ("aiosearch.workloads.shapes:Lopsided", "--set", f"height={TREE.height}", "--json")
    mine = ("--strategy", "sockets", "--workers", "0", "--listen", address)
    search = await _script(searching, "search", *words, *mine, *more)
    processes = [search]
    try:
        for host in serving:
            words = ("--connect", address, "--workers", "1", "--checkers", "0")
            processes.append(await _script(host, "worker", *words, *more))
        yield search
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _script(host: Host, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(*host.inside, sys.executable, "-m", "aiosearch", *words),
        stdout=asyncio.subprocess.PIPE if words[0] == "search" else asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
