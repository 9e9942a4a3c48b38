"""Requests of an asynchronous `expand`: so many a second, and again where they fail for a while.

A crawl that is allowed 120 requests a second, and whose server says now and then that it is busy:

    class Crawl:
        limit = RateLimit(120, burst=20)

        @retry(ConnectionError, TimeoutError, attempts=5)
        async def expand(self, node):
            async with self.limit:
                return await load(node)
"""

from __future__ import annotations

import asyncio
import functools
import math
import random
import threading
import time
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from .errors import AiosearchError

ParametersT = ParamSpec("ParametersT")
ResultT = TypeVar("ResultT")


class RateLimit:
    """Lets so many through a second; who comes too early waits, in the order of coming.

    It counts within one process. With several workers, give each its share. Threads and event
    loops of one process may share a limit.
    """

    def __init__(
        self,
        per_second: float,
        *,
        burst: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`burst` is how many may pass at once after a quiet time."""
        if not (isinstance(per_second, int | float) and 0 < per_second < math.inf):
            raise AiosearchError(f"RateLimit takes a rate above 0 per second, not {per_second!r}")
        if not (isinstance(burst, int) and burst >= 1):
            raise AiosearchError(f"RateLimit takes a burst of 1 or more, not {burst!r}")
        self._interval = 1.0 / per_second
        self._tolerance = (burst - 1) * self._interval
        self._clock = clock
        self._next = -math.inf
        """When the next would pass if all came at the even rate."""
        self._lock = threading.Lock()

    def reserve(self) -> float:
        """Takes the next place, and gives the seconds until it may be used.

        Nobody has to come back for a place: a task that is cancelled while it waits leaves its
        place unused, which only makes the rate lower.
        """
        with self._lock:
            now = self._clock()
            place = max(self._next, now)
            self._next = place + self._interval
            return max(place - self._tolerance - now, 0.0)

    async def wait(self) -> None:
        """Waits for a place."""
        seconds = self.reserve()
        if seconds > 0.0:
            await asyncio.sleep(seconds)

    async def __aenter__(self) -> None:
        await self.wait()

    async def __aexit__(self, *_: object) -> None:
        return


def retry(
    *errors: type[Exception], attempts: int = 5, first: float = 0.5, longest: float = 30.0
) -> Callable[
    [Callable[ParametersT, Awaitable[ResultT]]], Callable[ParametersT, Awaitable[ResultT]]
]:
    """Decorates a coroutine function: it is called again where it raises one of `errors`.

    Before the second of `attempts` up to `first` seconds pass, and each time twice as many, up to
    `longest`. How long exactly is drawn at random, so that many that failed together do not come
    back together. An error with a number `retry_after` is waited for that long. The last
    attempt's error is raised, with a note that says how often it was tried.
    """
    if not errors or not all(isinstance(kind, type) for kind in errors):
        raise AiosearchError(
            "retry takes the errors after which to try again, as in @retry(ConnectionError)"
        )
    if not (isinstance(attempts, int) and attempts >= 1):
        raise AiosearchError(f"retry takes 1 or more attempts, not {attempts!r}")

    def decorate(
        function: Callable[ParametersT, Awaitable[ResultT]],
    ) -> Callable[ParametersT, Awaitable[ResultT]]:
        @functools.wraps(function)
        async def attempted(
            *arguments: ParametersT.args, **keywords: ParametersT.kwargs
        ) -> ResultT:
            for attempt in range(attempts - 1):
                try:
                    return await function(*arguments, **keywords)
                except errors as error:
                    await asyncio.sleep(_pause(error, min(first * 2**attempt, longest)))
            try:
                return await function(*arguments, **keywords)
            except errors as error:
                error.add_note(f"tried {attempts} times")
                raise

        return attempted

    return decorate


def _pause(error: Exception, longest: float) -> float:
    """Seconds to wait after an error."""
    asked = getattr(error, "retry_after", None)
    if isinstance(asked, int | float) and 0 <= asked < math.inf:
        return float(asked)
    return random.uniform(0.5, 1.0) * longest
