"""The thread that owns the cache file, and what is done when the file fails."""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

from ..database import BusyError, DamagedError, UnavailableError, inode_of, set_aside
from .store import SHARE, Store, let_others_run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .verdict import Verdict

Rows: TypeAlias = "list[tuple[bytes, Verdict]]"
TRIES = 3
"""A new file may be damaged anew, if hardly ever; then verdicts stay in memory."""
KEPT_WHILE_BUSY = 4096
"""Verdicts that wait for another process's lock; older ones are forgotten."""


class Archive:
    """Reads and writes verdicts on a thread of its own, in the order of the calls.

    Nothing that happens to the file is an error: a damaged one is set aside and a new one begun,
    an unusable one is done without, and so is one that is something else; `warn` is told, in the
    event loop, and reads find nothing.
    """

    def __init__(
        self, path: Path, warn: Callable[[str], None], opened: Callable[[set[bytes]], None]
    ) -> None:
        """`opened` is told which digests the file holds."""
        self._path = path
        self._warn = warn
        self._opened = opened
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._finished = asyncio.Event()
        self._store: Store | None = None
        self._inode = 0
        self._late: Rows = []
        self._busy = False
        self._thread = threading.Thread(target=self._run, name="aiosearch-verdicts", daemon=True)
        self._thread.start()

    def read(self, digests: list[bytes], reply: Callable[[dict[bytes, Verdict]], None]) -> None:
        """Calls `reply` in the event loop with those that the file holds."""
        self._jobs.put(lambda: self._post(reply, self._read(digests)))

    def write(self, rows: Rows) -> None:
        self._jobs.put(lambda: self._write(rows))

    async def close(self) -> None:
        """Returns when everything is written, or cannot be."""
        self._jobs.put(None)
        await self._finished.wait()
        self._thread.join()

    def _run(self) -> None:
        self._open()
        while (job := self._jobs.get()) is not None:
            job()
        if self._late:
            self._write([])
        self._close_store()
        self._post(self._finished.set)

    def _open(self) -> None:
        digests: set[bytes] = set()
        for _ in range(TRIES):
            try:
                self._inode = inode_of(self._path)
                self._store = Store(self._path)
                self._inode = inode_of(self._path)
                digests = self._store.digests()
                break
            except DamagedError as error:
                if not self._put_aside(error):
                    break
            except Exception as error:
                self._do_without(error)
                break
        self._post(self._opened, digests)

    def _read(self, digests: list[bytes]) -> dict[bytes, Verdict]:
        found: dict[bytes, Verdict] = {}

        def read(store: Store) -> None:
            for number, digest in enumerate(digests, 1):
                if number % SHARE == 0:
                    let_others_run()
                if (verdict := store.get(digest)) is not None:
                    found[digest] = verdict

        self._attempt(read)
        return found

    def _write(self, rows: Rows) -> None:
        def write(store: Store) -> None:
            store.insert(self._late)
            self._late = []

        self._late = (self._late + rows)[-KEPT_WHILE_BUSY:]
        self._attempt(write)

    def _attempt(self, work: Callable[[Store], None]) -> None:
        if self._store is None:
            return
        try:
            work(self._store)
        except DamagedError as error:
            if self._put_aside(error):
                self._open()
        except BusyError as error:
            self._say_busy(error)
        except Exception as error:  # whatever it is, a cache must not cost more than its verdicts
            self._do_without(error)

    def _put_aside(self, error: Exception) -> bool:
        """Says whether a new file may be begun."""
        self._close_store()
        try:
            aside = set_aside(self._path, self._inode)
        except UnavailableError as trouble:
            self._do_without(trouble)
            return False
        if aside is not None:
            self._say(f"the verdict cache {self._path} is damaged ({error}); it is now {aside}")
        return True

    def _do_without(self, error: Exception) -> None:
        self._close_store()
        self._late = []
        self._say(f"the verdict cache {self._path} is not used any more: {error}")

    def _say_busy(self, error: Exception) -> None:
        if not self._busy:
            self._busy = True
            self._say(f"the verdict cache {self._path} is in use: {error}; to be tried again")

    def _say(self, message: str) -> None:
        self._post(self._warn, message)

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _post(self, function: Callable[..., object], *arguments: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)
