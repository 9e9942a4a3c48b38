"""The search's end of the link to a host actor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiosearch.remote.links import Delivery, LostError

from .cluster import Actor
from .outbox import Outbox

LINGER_SECONDS = 1.0
"""Seconds for which what was sent may still go out after `close`."""


class RayLink:
    """A link over an actor's calls, of which one in each direction is always under way.

    So messages stay in order, and those that come meanwhile travel together.
    """

    def __init__(self, actor: Actor, peer: str, early: list[bytes]) -> None:
        self._actor = actor
        self._peer = peer
        self._early = early
        self._outbox = Outbox()
        self._ended = asyncio.Event()
        self._delivery = Delivery(peer)
        loop = asyncio.get_running_loop()
        self._speaking = loop.create_task(self._speak())
        self._listening: asyncio.Task[None] | None = None

    @property
    def peer(self) -> str:
        return self._peer

    def open(self, received: Callable[[bytes], None], closed: Callable[[str], None]) -> None:
        if self._delivery.open(received, closed):
            self._listening = asyncio.get_running_loop().create_task(self._listen())

    def send(self, payload: bytes) -> None:
        if not self._outbox.put(payload):
            self._fail(f"{self._peer} takes no messages")

    def close(self, reason: str = "") -> None:
        self._end(reason or "closed on this side")

    async def wait_ended(self) -> None:
        """Waits until it is closed, on whichever side."""
        await self._ended.wait()

    async def finish(self) -> None:
        """Closes the link, and waits until what was sent has gone out: for `LINGER_SECONDS`
        at most."""
        self.close()
        await asyncio.wait([self._speaking], timeout=LINGER_SECONDS)
        tasks = [task for task in (self._speaking, self._listening) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _speak(self) -> None:
        try:
            while batch := await self._outbox.take():
                await self._actor.deliver(batch)
        except LostError as error:
            self._fail(str(error))

    async def _listen(self) -> None:
        batch = self._early
        try:
            while batch:
                self._delivery.deliver(batch)
                # The next call begins when the batch is delivered, so an actor that is faster than
                # the search has to wait
                batch = await self._actor.collect()
        except LostError as error:
            self._fail(str(error))
        else:
            self._fail(f"{self._peer} closed the link")

    def _fail(self, reason: str) -> None:
        self._end(reason)
        self._speaking.cancel()

    def _end(self, reason: str) -> None:
        if self._delivery.end(reason):
            self._ended.set()
            self._outbox.close()
