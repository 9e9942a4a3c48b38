"""Threads that are waited for."""

from __future__ import annotations

import asyncio
import threading

import pytest

from aiosearch._blocking import to_the_end
from aiosearch.testing import no_leaks


async def test_what_a_thread_gives_or_raises_comes_back() -> None:
    assert await to_the_end(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await to_the_end(divmod, 7, 0)


@pytest.mark.parametrize("divisor", [2, 0])
async def test_whoever_is_cancelled_leaves_when_the_thread_is_done(divisor: int) -> None:
    """However often; what the thread gives or raises then is nobody's."""
    begun, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> int:
        loop.call_soon_threadsafe(begun.set)
        go.wait()
        return 7 // divisor

    async with no_leaks():
        task = asyncio.ensure_future(to_the_end(work))
        await begun.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        early = task.done()
        go.set()
        await asyncio.gather(task, return_exceptions=True)
    assert not early
    assert task.cancelled()
