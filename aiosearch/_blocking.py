"""Event loops beside other work: waiting where nothing can be awaited, threads that compute."""

from __future__ import annotations

import _thread
import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar, TypeVarTuple

from anyio import to_thread

INTERVAL = 0.001
"""Seconds after which a thread that computes lets another one have its turn."""


class _SharedInterval:
    """Who wants short turns, and what the interval was before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.before = INTERVAL


_shared = _SharedInterval()


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """In the body the event loop gets its turn within about a millisecond, whatever threads
    compute.

    Python's own interval is 5 ms (`sys.getswitchinterval`), and a loop that wakes while a
    thread computes waits for as long. A shorter interval, and one that was set meanwhile, is
    left as it is.
    """
    with _shared.lock:
        _shared.count += 1
        if _shared.count == 1:
            _shared.before = sys.getswitchinterval()
            if _shared.before > INTERVAL:
                sys.setswitchinterval(INTERVAL)
    try:
        yield
    finally:
        with _shared.lock:
            _shared.count -= 1
            # The interpreter keeps whole microseconds, so what is read back may differ a little
            ours = abs(sys.getswitchinterval() - INTERVAL) < INTERVAL / 100
            if not _shared.count and ours:
                sys.setswitchinterval(_shared.before)


T = TypeVar("T")

_LOOK = 0.1  # seconds between looks at what signals came


def waited_for(begin: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
    """Runs a coroutine to its end, in a thread called `name` where an event loop runs in ours."""
    if loop_is_running():
        return _in_thread(begin, name)
    return asyncio.run(begin())


def loop_is_running() -> bool:
    """Whether this thread is in an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _in_thread(begin: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
    waiting = _Waiting(begin, name)
    try:
        waiting.start()
        waiting.wait()
    except BaseException:
        waiting.cancel()
        waiting.wait()
        raise
    return waiting.outcome.result()


class _Waiting(Generic[T]):
    """A coroutine that one thread runs and another one may `cancel`, at whatever moment."""

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, T]], name: str) -> None:
        self.outcome: Future[T] = Future()
        self._begin = begin
        self._thread = threading.Thread(target=self.work, name=name)
        self._starting: list[int] = []
        self._ended = False
        self._bell = threading.Lock()
        self._bell.acquire()  # until it has ended
        self._lock = threading.Lock()
        self._cancel: Callable[[], object] | None = None
        self._unwanted = False

    def start(self) -> None:
        """Begins the coroutine in a thread of its own.

        `Thread.start` waits on a condition until the thread runs, so another thread calls
        it, which no signal interrupts; `_starting` notes that in the same call that starts
        that one.
        """
        self._starting.extend(map(_thread.start_new_thread, [self._start], [()]))

    def _start(self) -> None:
        try:
            self._thread.start()
        except BaseException as error:
            self._end(partial(self.outcome.set_exception, error))

    def work(self) -> None:
        """Runs it to its end, in an event loop of its own."""
        try:
            value = asyncio.run(self._run())
        except BaseException as error:
            self._end(partial(self.outcome.set_exception, error))
        else:
            self._end(partial(self.outcome.set_result, value))

    def _end(self, tell: Callable[[], None]) -> None:
        tell()
        self._ended = True
        # Last: whoever wakes finds the outcome
        self._bell.release()

    def wait(self) -> None:
        """Waits for the end of what was started, or a signal.

        In short steps, as a signal between Python's last look and the sleep wakes nobody;
        on a bare lock, as an interrupted `join` takes its thread for ended and an
        interrupted condition may stay locked.
        """
        while self._starting and not self._ended:
            self._bell.acquire(timeout=_LOOK)
        if self._thread.ident is not None:
            self._thread.join()

    def cancel(self) -> None:
        """Ends the coroutine; one that has not begun never does, and one that has ended is
        left alone."""
        with self._lock:
            self._unwanted = True
            if self._cancel is not None:
                self._cancel()

    async def _run(self) -> T:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        with self._lock:
            if self._unwanted:
                raise asyncio.CancelledError
            self._cancel = partial(loop.call_soon_threadsafe, task.cancel)
        try:
            return await self._begin()
        finally:
            with self._lock:  # the loop is closed next
                self._cancel = None


_T = TypeVar("_T")
_Arguments = TypeVarTuple("_Arguments")


async def to_the_end(function: Callable[[*_Arguments], _T], *arguments: *_Arguments) -> _T:
    """Runs `function` in a thread. Whoever is cancelled leaves when it is done: what it uses is
    in use.

    A thread cannot be ended, and a task that is cancelled by asyncio waits for none by itself.
    """
    work = asyncio.ensure_future(to_thread.run_sync(function, *arguments))
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return work.result()
    if not work.cancelled():
        work.exception()  # what it raised is nobody's any more
    raise cancelled
