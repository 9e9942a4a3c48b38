"""Processes that work for the host, so that its event loop does not wait: both of their ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from msgspec import Struct

from ..engine.channel import Channel
from ..engine.child import Child
from ..measure.process import BROOD
from .errors import OptimizeError


class Failed(Struct, frozen=True, tag=True):
    """There is no answer, and why."""

    reason: str


class Servant:
    """The host's end: what it says is heard in order, by whoever asks for it."""

    def __init__(self, does: str) -> None:
        self._does = does
        self._heard: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._child: Child

    async def begin(self, module: str, files: tuple[int, ...], arguments: tuple[str, ...]) -> None:
        self._child = await Child.spawn(
            module,
            self._heard.put_nowait,
            lambda: self._heard.put_nowait(None),
            files,
            arguments,
            BROOD,
        )

    def send(self, payload: bytes) -> None:
        self._child.send(payload)

    async def hear(self) -> bytes:
        """The next thing it says; raises OptimizeError where it has died."""
        payload = await self._heard.get()
        if payload is None:
            raise OptimizeError(f"the process that {self._does} has died")
        return payload

    async def end(self) -> None:
        self._child.kill()
        with anyio.CancelScope(shield=True):
            await self._child.reap()


@asynccontextmanager
async def servant(
    module: str, does: str, files: tuple[int, ...] = (), arguments: tuple[str, ...] = ()
) -> AsyncIterator[Servant]:
    """A process that runs a module, and is gone afterwards; `does` says in words what for."""
    found = Servant(does)
    await found.begin(module, files, arguments)
    try:
        yield found
    finally:
        await found.end()


def serving(channel: Channel, answer: Callable[[bytes], bytes]) -> None:
    """The process's end: answers until the host goes away or kills it."""
    try:
        while True:
            for payload in channel.receive():
                channel.send(answer(payload))
    except (EOFError, ConnectionError):
        return
