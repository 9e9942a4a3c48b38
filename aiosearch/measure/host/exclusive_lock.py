"""What has to be alone: a lock that other work overlaps without, and stopped processes (SIGSTOP).

A stopped process takes no time from what is timed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress


class ExclusiveLock:
    """A lock for work that may overlap (`busy`) and work that has to be `alone`, which goes
    first.

    On a CPU, compilations are busy and a race is alone.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._busy = 0
        self._waiting = 0
        self._alone = False

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """Waits while someone is alone, or wants to be."""
        async with self._changed:
            await self._changed.wait_for(lambda: not (self._alone or self._waiting))
            self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            await self._notify()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Waits until nobody is busy, and keeps all others waiting."""
        async with self._changed:
            self._waiting += 1
            try:
                await self._changed.wait_for(lambda: not (self._alone or self._busy))
                self._alone = True
            finally:
                self._waiting -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            self._alone = False
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@contextmanager
def paused(pids: Iterable[int]) -> Iterator[None]:
    """Stops processes that this one started and has not waited for, and lets them go on after."""
    stopped: list[int] = []
    try:
        stopped.extend(pid for pid in pids if _send(pid, signal.SIGSTOP))
        yield
    finally:
        for pid in stopped:
            _send(pid, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
