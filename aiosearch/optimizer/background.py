"""Searches in the background: one after the other, in a thread of low priority, as long as the
program runs.

What takes time runs in processes that this thread starts, which inherit its priority and end with
it (see `processes`). The thread itself ends with the program, or when nothing is left to search:
Python waits for it at the end, so it looks every `LOOK_SECONDS` whether the main thread is still
there, and cancels what goes on when it is not.

Of all processes of a user that search in the background one does at a time, by a lock on a file:
races side by side would only measure each other. The others wait, and mostly find the answer then.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from ..folders import cache_folder, make_folder
from ..pool import usable_cores

LOOK_SECONDS = 0.1
"""Seconds between looks at whether the program is about to end, or another has the lock still."""
NICENESS = 10
"""How much less urgent a search in the background is than what the program itself does."""
LEAST_CORES = 2
"""With fewer, a search would take its time from the program, and its races would measure that."""
_LOCK = "background.lock"


@dataclass(eq=False)
class BackgroundSearch:
    """A search that waits, goes on or has ended."""

    run: Callable[[], Awaitable[None]]
    """Does it, and takes care of its errors itself."""
    calls: int = 1
    """How often it would have served: what is called most is searched first."""
    ended: threading.Event = field(default_factory=threading.Event)


class BackgroundSearches:
    """The searches of this process: any thread may submit one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[BackgroundSearch] = []
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    @property
    def possible(self) -> bool:
        """Whether the machine allows a search beside the program."""
        return usable_cores() >= LEAST_CORES

    def submit(self, search: BackgroundSearch) -> None:
        """Has a search done when its turn comes."""
        with self._lock:
            if self._process != os.getpid():
                # A fork has none of the threads, and what they were doing is the parent's.
                self._process, self._waiting, self._thread = os.getpid(), [], None
            self._waiting.append(search)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="aiosearch background")
                self._thread.start()

    def _work(self) -> None:
        _be_nice()
        while (search := self._next()) is not None:
            try:
                asyncio.run(_until_the_end(search))
            finally:
                search.ended.set()
            if not threading.main_thread().is_alive():
                self._give_up()

    def _next(self) -> BackgroundSearch | None:
        """The search that would serve most calls; without one the thread is done."""
        with self._lock:
            if not self._waiting:
                self._thread = None
                return None
            search = max(self._waiting, key=lambda waiting: waiting.calls)
            self._waiting.remove(search)
            return search

    def _give_up(self) -> None:
        with self._lock:
            for search in self._waiting:
                search.ended.set()
            self._waiting = []


SEARCHES = BackgroundSearches()


def _be_nice() -> None:
    """Lowers the priority of this thread, and so of the threads and processes that it starts."""
    # On Linux priorities are those of threads, and a thread's number names it.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            niceness = os.getpriority(os.PRIO_PROCESS, thread) + NICENESS
            os.setpriority(os.PRIO_PROCESS, thread, min(niceness, 19))


async def _until_the_end(search: BackgroundSearch) -> None:
    """Runs a search, and cancels it where the program ends before."""
    task = asyncio.current_task()
    assert task is not None
    watch = asyncio.create_task(_cancel_at_the_end(task))
    try:
        async with _one_at_a_time():
            await search.run()
    except asyncio.CancelledError:
        return  # the program is about to end
    finally:
        watch.cancel()


async def _cancel_at_the_end(task: asyncio.Task[None]) -> None:
    # Python has no event for the end of the main thread that would not come after this thread's.
    while threading.main_thread().is_alive():  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)
    task.cancel()


@contextlib.asynccontextmanager
async def _one_at_a_time() -> AsyncIterator[None]:
    """Has the lock that all processes of this user share, where there is a place for it."""
    try:
        make_folder(cache_folder())
        file = (cache_folder() / _LOCK).open("a")
    except OSError:
        yield  # a user without a folder searches without it
        return
    with file:  # closing it gives the lock back
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                await asyncio.sleep(LOOK_SECONDS)
        yield
