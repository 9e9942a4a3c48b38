"""Waits for a coroutine where nothing can be awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def waited_for(begin: Callable[[], Coroutine[Any, Any, T]], name: str) -> T:
    """Runs a coroutine to its end, in a thread of this name where an event loop runs in ours."""
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
    outcome: list[T] = []
    failure: list[BaseException] = []
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = []

    async def noted() -> T:
        task = asyncio.current_task()
        assert task is not None
        loops.append((asyncio.get_running_loop(), task))
        return await begin()

    def work() -> None:
        try:
            outcome.append(asyncio.run(noted()))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, name=name)
    thread.start()
    try:
        thread.join()
    except BaseException:
        for loop, task in loops:
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    if failure:
        raise failure[0]
    return outcome[0]
