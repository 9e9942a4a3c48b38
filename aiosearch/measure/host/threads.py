"""Work in a thread that is waited for, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from anyio import to_thread

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
