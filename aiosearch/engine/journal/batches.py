"""Records on their way to a journal: few at a time cost a file operation each, so they gather."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .records import JournalRecord

BATCH_SECONDS = 0.05
"""How long a record waits for company."""
MANY_BYTES = 256 * 1024
"""So much is not made to wait."""
PIECE_BYTES = 64 * 1024
"""What is taken at once, so that encoding it never holds up the loop."""


class Batches:
    """A queue that one task empties, a batch at a time."""

    def __init__(self) -> None:
        self._records: deque[JournalRecord] = deque()
        self._bytes = 0
        self._some = asyncio.Event()
        self._many = asyncio.Event()
        self.closed = False

    def put(self, record: JournalRecord) -> None:
        self._records.append(record)
        self._bytes += record.weight
        self._some.set()
        if self._bytes >= MANY_BYTES:
            self._many.set()

    def close(self) -> None:
        """Ends the waiting: what is there is due."""
        self.closed = True
        self._some.set()
        self._many.set()

    async def due(self) -> None:
        """Returns when records have gathered for long enough, or there are many."""
        await self._some.wait()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._many.wait(), BATCH_SECONDS)

    def take(self) -> list[JournalRecord]:
        """Gives the next records: one, or several of about 64 KB; none when none are left."""
        taken: list[JournalRecord] = []
        size = 0
        while self._records and size < PIECE_BYTES:
            record = self._records.popleft()
            size += record.weight
            taken.append(record)
        self._bytes -= size
        if not self._records and not self.closed:
            self._some.clear()
            self._many.clear()
        return taken
