"""Messages that wait for the call that takes them all; see `RayLink`."""

from __future__ import annotations

import asyncio

from aiosearch.remote.links import MOST_BYTES

MOST_WAITING = MOST_BYTES
"""Bytes; more than these do not wait."""


class Outbox:
    """What is put while one call is under way goes with the next: the busier, the larger."""

    def __init__(self) -> None:
        self.closed = False
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._something = asyncio.Event()

    def put(self, payload: bytes) -> bool:
        """Adds a message, but for one that comes when the outbox is `closed`; says whether
        there is room."""
        if self.closed:
            return True
        if self._bytes > MOST_WAITING:
            return False
        self._waiting.append(payload)
        self._bytes += len(payload)
        self._something.set()
        return True

    async def take(self) -> list[bytes]:
        """All that waits, as soon as there is something; nothing once it is closed and empty."""
        await self._something.wait()
        batch, self._waiting, self._bytes = self._waiting, [], 0
        if not self.closed:
            self._something.clear()
        return batch

    def close(self) -> None:
        """Takes no more messages; those that wait may be taken."""
        self.closed = True
        self._something.set()
