"""A last line that tells that it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from .screen import Screen

TICK_SECONDS = 0.25


@asynccontextmanager
async def ticking(screen: Screen, text: Callable[[], str]) -> AsyncIterator[None]:
    """Shows what the text is now, four times a second."""
    task = asyncio.create_task(_tick(screen, text))
    try:
        yield
    finally:
        task.cancel()


async def _tick(screen: Screen, text: Callable[[], str]) -> None:
    while True:
        screen.status(text())
        await asyncio.sleep(TICK_SECONDS)
