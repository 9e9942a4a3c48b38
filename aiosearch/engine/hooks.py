"""Hooks: whoever listens to a search, and can never hurt it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ..events import AnyEvent, Hook

log = logging.getLogger("aiosearch")


class Hooks:
    """Calls every hook with every event; what a hook raises is logged once, and counted."""

    def __init__(self, hooks: tuple[Hook, ...]) -> None:
        self._hooks = hooks
        self._tasks: set[asyncio.Future[Any]] = set()
        self.errors = 0

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def emit(self, event: AnyEvent) -> None:
        for hook in self._hooks:
            try:
                outcome = hook(event)
                if asyncio.iscoroutine(outcome):
                    task = asyncio.ensure_future(outcome)
                    self._tasks.add(task)
                    task.add_done_callback(self._done)
            except Exception as error:
                self._failed(error)

    async def close(self, seconds: float) -> None:
        """Gives asynchronous hooks a moment to end, then ends them."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
            for task in self._tasks:
                task.cancel()

    def _done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self.errors += 1
        if self.errors == 1:
            log.error("a hook raised; the search goes on without it", exc_info=error)
