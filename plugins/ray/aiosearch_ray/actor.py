"""The host actor: an `Agent` with the processors of the Ray node that it is placed on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiosearch.remote.agent import Agent
from aiosearch.remote.links import LostError, UnwelcomeError

from .cluster import recall
from .outbox import Outbox


class HostActor:
    """One for each node; it speaks when it is asked to, because Ray's calls go one way.

    An empty batch from `collect` is the last.
    """

    def __init__(self, workers: int, name: str, notes: str) -> None:
        self._workers = workers
        self._name = name
        self._recall = partial(recall, notes)
        self._link: ActorLink | None = None
        self._serving: asyncio.Task[None] | None = None

    async def collect(self) -> list[bytes]:
        """What the search is to hear, as soon as there is something; the first call begins."""
        if self._link is None:
            self._link = ActorLink()
            self._serving = asyncio.get_running_loop().create_task(self._serve(self._link))
        return await self._link.outbox.take()

    async def deliver(self, batch: list[bytes]) -> None:
        """Takes what the search says."""
        if self._link is not None:
            self._link.deliver(batch)

    async def _serve(self, link: ActorLink) -> None:
        try:
            workers, name = self._workers, self._name
            # As many z3 processes as workers, as on any machine that joins
            await Agent(link, workers, workers, name, recall=self._recall).serve()
        except (LostError, UnwelcomeError):
            pass  # the search knows: it has closed the link, or will take another actor
        finally:
            link.close()


class ActorLink:
    """The actor's end of the `Link`."""

    peer = "the search"

    def __init__(self) -> None:
        self.outbox = Outbox()
        self._received: Callable[[bytes], None] | None = None
        self._closed: Callable[[str], None] | None = None

    def open(self, received: Callable[[bytes], None], closed: Callable[[str], None]) -> None:
        self._received, self._closed = received, closed

    def send(self, payload: bytes) -> None:
        if not self.outbox.put(payload):
            self.close("the search takes no messages")

    def close(self, reason: str = "") -> None:
        if not self.outbox.closed:
            self.outbox.close()
            if self._closed is not None:
                asyncio.get_running_loop().call_soon(self._closed, reason or "closed on this side")

    def deliver(self, batch: list[bytes]) -> None:
        assert self._received is not None
        for payload in batch:
            if self.outbox.closed:
                return
            try:
                self._received(payload)
            except Exception as error:
                self.close(f"a message of the search failed: {type(error).__name__}: {error}")
