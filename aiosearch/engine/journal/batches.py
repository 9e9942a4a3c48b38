"""Records on their way to a journal. Writing few at a time costs a file operation each, so they
gather."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .records import JournalRecord

BATCH_SECONDS = 0.05
"""Seconds for which a record waits for others to be written with it."""
MANY_BYTES = 256 * 1024
"""This many bytes are written at once, without waiting."""
PIECE_BYTES = 64 * 1024
"""Bytes that `take` gives at once, so that encoding them never holds up the loop."""


class Batches:
    """A queue of `JournalRecord`s that one task empties, a batch at a time."""

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
        """Ends the waiting: `due` returns, and what is there is written."""
        self.closed = True
        self._some.set()
        self._many.set()

    async def due(self) -> None:
        """Returns when records have gathered for long enough, or there are many."""
        await self._some.wait()
        with contextlib.suppress(TimeoutError):
            # The first record waits for others, but never longer than this: it is what a crash may
            # cost
            await asyncio.wait_for(self._many.wait(), BATCH_SECONDS)

    def take(self) -> list[JournalRecord]:
        """Gives the next records: one, or several of about `PIECE_BYTES`; none when none
        are left."""
        batch: list[JournalRecord] = []
        size = 0
        while self._records and size < PIECE_BYTES:
            record = self._records.popleft()
            size += record.weight
            batch.append(record)
        self._bytes -= size
        # After `close` the events stay set, or the writer would wait for records that never come
        if not self._records and not self.closed:
            self._some.clear()
            self._many.clear()
        return batch
