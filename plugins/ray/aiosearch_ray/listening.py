"""Lets a Ray cluster serve a search: a host actor on each node, for as long as both are there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiosearch.remote.links import Link

from .cluster import Cluster, RayNode
from .notebook import RayNotebook
from .placement import Placement

LOOK_SECONDS = 2.0
"""Seconds between looks at which nodes there are."""

_log = logging.getLogger("aiosearch")


class RayListener:
    """A cluster whose nodes serve a search; the actors, and so their links, end with it.

    Without an address it is the cluster that this process uses, that `RAY_ADDRESS` names or that
    runs on this machine; where there is none, or with the address `local`, Ray is started here, and
    stopped in the end. Each actor has all processors of its node, or at most `cpus`.

    What its searches find is in a named actor as well, for whoever looks, which goes with them;
    one that has the name `keep` stays, and what it knows of z3's answers is not asked again.
    """

    covers_here = True

    def __init__(
        self, address: str | None = None, *, cpus: int | None = None, keep: str | None = None
    ) -> None:
        self._cluster = Cluster(address)
        self.notebook = RayNotebook(self._cluster, keep)
        self._cpus = cpus
        self._placed: dict[str, asyncio.Task[None]] = {}
        self._watching: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return self._cluster.address

    @property
    def invitation(self) -> str:
        return f"ray start --address={self.address}  # what it finds: actor {self.notebook.name}"

    async def start(self, joined: Callable[[Link], None]) -> None:
        self._joined = joined
        await self._cluster.open()
        await self.notebook.open()
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def close(self) -> None:
        await _ended([self._watching] if self._watching else [])
        await _ended(list(self._placed.values()))
        await self.notebook.close()
        await self._cluster.close()

    async def _watch(self) -> None:
        while True:
            try:
                nodes = await self._cluster.nodes()
            except Exception as error:
                _log.warning("the cluster does not say which nodes it has: %s", error)
            else:
                self._match({node.id: node for node in nodes})
            await asyncio.sleep(LOOK_SECONDS)

    def _match(self, nodes: dict[str, RayNode]) -> None:
        """Begins with the nodes that have come, and ends with those that are gone."""
        for id in self._placed.keys() - nodes.keys():
            self._placed[id].cancel()
        for id in nodes.keys() - self._placed.keys():
            node = nodes[id]
            cpus = min(node.cpus, self._cpus or node.cpus)
            name = self.notebook.name
            placement = Placement(self._cluster, node, cpus, name, self._joined)
            self._placed[id] = asyncio.get_running_loop().create_task(placement.run())


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
