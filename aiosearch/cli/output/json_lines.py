"""Events as JSON lines."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

from ...events import AnyEvent, Checked, Progress, TaskAssigned, WorkReported
from .streams import to_json

MOST_WAITING = 10_000
_EXPENDABLE = (Checked, Progress, TaskAssigned, WorkReported)


class JsonLines:
    """A hook that writes each event as a line, on a thread of its own.

    So a reader that is slow, or has stopped reading, holds up neither the search nor Ctrl-C. For
    one that far behind, events that only tell how it is going are left out. `closed` is called
    in the event loop when nobody reads any more.
    """

    def __init__(self, fd: int, closed: Callable[[], None]) -> None:
        self._fd = fd
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._written = asyncio.Event()
        self._over = False
        self.error: OSError | None = None
        """What ended the writing."""
        threading.Thread(target=self._write_all, name="aiosearch-json", daemon=True).start()

    def __call__(self, event: AnyEvent) -> None:
        if self._lines.qsize() > MOST_WAITING and isinstance(event, _EXPENDABLE):
            return
        if self.error is None:
            self._lines.put(to_json(event) + b"\n")

    async def drain(self) -> None:
        """Returns when all is written, or nobody reads any more; cancelled, it drops the rest."""
        self._lines.put(None)
        try:
            await self._written.wait()
        finally:
            self._over = True

    def _write_all(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                unwritten = memoryview(line)
                while unwritten and not self._over:
                    unwritten = unwritten[os.write(self._fd, unwritten) :]
        except OSError as error:
            self.error = error
            self._post(self._closed)
        self._post(self._written.set)

    def _post(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed: nobody waited
            return
