"""One node's host actor, and the next one where it is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiosearch.remote.links import Link

from .cluster import Cluster, RayNode, RemoteActor
from .link import RayLink

PATIENCE = 30.0
"""Seconds for which an actor waits for its processors; the next one asks for half as many."""
SHORTEST, LONGEST = 0.5, 60.0
"""Seconds between one actor and the next: twice as many after each that did not live long."""
LONG = 10.0
"""An actor that lived for so many seconds was well."""

_log = logging.getLogger("aiosearch")


class Placement:
    """Keeps a `HostActor` on a node, and hands over the link to each."""

    def __init__(
        self,
        cluster: Cluster,
        node: RayNode,
        cpus: int,
        notes: str,
        joined: Callable[[Link], None],
    ) -> None:
        self._cluster = cluster
        self._notes = notes
        self._node = node
        self._cpus = cpus
        self._joined = joined

    async def run(self) -> None:
        """Goes on until it is cancelled; then nothing of it is left."""
        loop, pause = asyncio.get_running_loop(), SHORTEST
        while True:
            began = loop.time()
            try:
                await self._one()
            except Exception as error:
                _log.warning("%s does not serve: %s", self._node.name, error)
            if loop.time() - began > LONG:
                pause = SHORTEST
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST)

    async def _one(self) -> None:
        """Runs one actor, from its start to its end."""
        actor = await self._cluster.place(self._node, self._cpus, self._notes)
        try:
            if link := await self._link(actor):
                try:
                    self._joined(link)
                    await link.wait_ended()
                finally:
                    await link.finish()
        finally:
            await self._cluster.kill(actor)

    async def _link(self, actor: RemoteActor) -> RayLink | None:
        try:
            async with asyncio.timeout(PATIENCE):
                early = await actor.collect()
        except TimeoutError:
            self._cpus = max(self._cpus // 2, 1)
            return None
        return RayLink(actor, f"Ray node {self._node.id[:8]}", early)
