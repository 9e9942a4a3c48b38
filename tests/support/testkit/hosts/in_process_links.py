"""Links inside one process: what a transport is to the engine, without a network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiosearch.remote.links import Link


class PairLink:
    """One of two ends; messages arrive on the next turn of the loop."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.other: PairLink
        self.stuck = False
        """Whether nothing arrives any more, as where a network is cut."""
        self.delay = 0.0
        """Seconds that what is sent from here takes on its way."""
        self._received: Callable[[bytes], None] | None = None
        self._closed: Callable[[str], None] | None = None
        self._waiting: list[bytes] = []
        self._over = False

    def open(self, received: Callable[[bytes], None], closed: Callable[[str], None]) -> None:
        self._received, self._closed = received, closed
        for payload in self._waiting:
            asyncio.get_running_loop().call_soon(self._take, payload)
        self._waiting.clear()

    def send(self, payload: bytes) -> None:
        if not self._over and not self.other.stuck:
            self._pass_on(self.other._take, payload)

    def close(self, reason: str = "") -> None:
        asyncio.get_running_loop().call_soon(self._end, reason or "closed here")
        if not self.other.stuck:
            self._pass_on(self.other._end, "closed by the other end")

    def _pass_on(self, take: Callable[[Any], None], what: Any) -> None:
        loop = asyncio.get_running_loop()
        if self.delay:
            loop.call_later(self.delay, take, what)
        else:
            loop.call_soon(take, what)

    def _take(self, payload: bytes) -> None:
        if self._over:
            return
        if self._received is None:
            self._waiting.append(payload)
            return
        try:
            self._received(payload)
        except Exception as error:
            self.close(f"{type(error).__name__}: {error}")

    def _end(self, reason: str) -> None:
        if not self._over:
            self._over = True
            if self._closed is not None:
                self._closed(reason)


def pair() -> tuple[PairLink, PairLink]:
    ours, theirs = PairLink("there"), PairLink("here")
    ours.other, theirs.other = theirs, ours
    return ours, theirs


class PairListener:
    """Hosts call `connect` instead of an address."""

    address = invitation = "this process"
    covers_here = False

    def __init__(self) -> None:
        self._joined: Callable[[Link], None] | None = None

    async def start(self, joined: Callable[[Link], None]) -> None:
        self._joined = joined

    async def close(self) -> None:
        self._joined = None

    def connect(self) -> PairLink:
        assert self._joined is not None
        ours, theirs = pair()
        self._joined(ours)
        return theirs
