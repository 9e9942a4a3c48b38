"""Machines for a strategy that needs some: processes on loopback that join as users' would."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio

from ..engine.child import Child

MODULE = "aiosearch.cli.guest"
LEAVE_SECONDS = 5.0
"""How long a machine may take to go home before it is ended."""


@dataclass
class Guests:
    """The machines, from the time when they were asked to join."""

    children: list[Child] = field(default_factory=list)
    missed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when one has gone."""
    _gone: int = 0
    _all_gone: asyncio.Event = field(default_factory=asyncio.Event)

    async def invite(self, invitation: str, checkers: int) -> None:
        """Types on a new machine what it takes to join with one worker."""
        words = shlex.split(invitation)[1:]
        words += ["--workers", "1", "--checkers", str(checkers)]
        words += ["--name", f"guest {len(self.children) + 1}"]
        self.children.append(
            await Child.spawn(MODULE, lambda frame: None, self._left, arguments=tuple(words))
        )

    def _left(self) -> None:
        self._gone += 1
        self.missed.set()
        if self._gone == len(self.children):
            self._all_gone.set()

    async def close(self) -> None:
        """Waits until they have gone, and ends those that do not go."""
        if self.children:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_gone.wait(), LEAVE_SECONDS)
        for child in self.children:
            child.kill()
            await child.reap()


@asynccontextmanager
async def guests() -> AsyncIterator[Guests]:
    """Machines that may be invited; at the end they have gone."""
    made = Guests()
    try:
        yield made
    finally:
        with anyio.CancelScope(shield=True):
            await made.close()
