"""The contract of a transport: it connects hosts, and carries messages between them.

A message arrives whole, once and in order, or its link closes. Both ends of a link trust each
other: who is there, and that nobody changed, repeated or made up a message, is the transport's
business. What the messages say is none of it. `find_transport` finds one by its name among the
entry points of `aiosearch.transports`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, cast

from ..errors import AiosearchError

API = 1
"""The version of this contract."""

MOST_BYTES = 256 * 1024 * 1024
"""Bytes; a longer message is none."""


class UnwelcomeError(AiosearchError):
    """The other end does not want this host, or cannot be asked: it is no use to try again."""


class LostError(AiosearchError):
    """The link was lost; `connect` may be tried again."""


class Link(Protocol):
    """One end of a way between two hosts."""

    @property
    def peer(self) -> str:
        """Who is at the other end, for people."""
        ...

    def open(self, received: Callable[[bytes], None], closed: Callable[[str], None]) -> None:
        """Begins to deliver: each message, and at the end, once, why there are no more.

        Nothing is delivered before, and nothing after `closed`. An error that `received` raises
        closes the link, and nothing else.
        """
        ...

    def send(self, payload: bytes) -> None:
        """Queues a message; one for a link that has closed is dropped. Never blocks."""
        ...

    def close(self, reason: str = "") -> None:
        """Closes the link: nothing is delivered any more but `closed`, soon, if it was not
        called.

        What was queued still goes out where the other end takes it within a second. Safe to
        call twice.
        """
        ...


class Delivery:
    """How a link keeps what `Link.open` promises, for authors of transports."""

    def __init__(self, peer: str) -> None:
        self.ended: str | None = None
        """Why there are no more messages, or None while there may be some."""
        self._peer = peer
        self._received: Callable[[bytes], None] | None = None
        self._closed: Callable[[str], None] | None = None

    def open(self, received: Callable[[bytes], None], closed: Callable[[str], None]) -> bool:
        """Takes the two callbacks; says whether there will be messages."""
        self._received, self._closed = received, closed
        if self.ended is not None:
            # Soon, not now: who opens a link does not expect to hear of its end before `open`
            # returns
            asyncio.get_running_loop().call_soon(closed, self.ended)
        return self.ended is None

    def deliver(self, payloads: Iterable[bytes]) -> None:
        """Hands messages over, until it has ended; raises `LostError` where one of them fails."""
        assert self._received is not None
        for payload in payloads:
            # A message before this one may have closed the link
            if self.ended is not None:
                return
            try:
                self._received(payload)
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise LostError(f"a message of {self._peer} failed: {what}") from error

    def end(self, reason: str) -> bool:
        """Ends the delivery, and calls `closed` soon and once; says whether that is news."""
        if self.ended is not None:
            return False
        self.ended = reason
        if self._closed is not None:
            asyncio.get_running_loop().call_soon(self._closed, reason)
        return True


class Listener(Protocol):
    """What a transport does for a search: it gives a link for each host that comes.

    One that can have what searches find noted elsewhere has a `notebook` besides, which `Notebook`
    of `aiosearch.remote.notebooks` describes.
    """

    async def start(self, joined: Callable[[Link], None]) -> None:
        """Begins to accept hosts; each link is handed over once it is trusted, and not opened."""
        ...

    @property
    def address(self) -> str:
        """Where hosts connect to, for people and for `--connect`; known once it has started."""
        ...

    @property
    def invitation(self) -> str:
        """What to type on another machine, so that it joins; known once it has started."""
        ...

    @property
    def covers_here(self) -> bool:
        """Whether this machine serves as well, so that by default no worker is started here."""
        ...

    async def close(self) -> None:
        """Accepts nobody any more, and waits until what closed links still say has gone out.

        Links that are open stay so. Safe to call twice.
        """
        ...


class Transport(Protocol):
    """What a plugin offers, as an object behind an entry point of the group `aiosearch.transports`.

    Without an address, both are on this machine, where nobody else gets to.
    """

    api: int

    def listener(self, address: str | None, token_file: Path | None) -> Listener:
        """Makes the listener of a search; raises `AiosearchError` where it may not listen there."""
        ...

    async def connect(self, address: str, token_file: Path | None) -> Link:
        """Makes the link of a host; raises `UnwelcomeError`, or `AiosearchError` where
        trying again may help."""
        ...


GROUP = "aiosearch.transports"


def has_transport(name: str) -> bool:
    """Whether one of this name is installed."""
    from importlib.metadata import entry_points  # slow to import, and workers need none of it

    return any(point.name == name for point in entry_points(group=GROUP))


def find_transport(name: str) -> Transport:
    """Loads a `Transport` by name; raises `AiosearchError` where it is not installed or cannot
    be used."""
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        names = ", ".join(sorted(points)) or "none"
        raise AiosearchError(
            f"no transport {name!r} is installed; there are: {names}; `pip install"
            " aiosearch-sockets` brings one"
        )
    try:
        transport = points[name].load()
    except Exception as error:
        raise AiosearchError(
            f"transport {name!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if getattr(transport, "api", None) != API:
        raise AiosearchError(
            f"transport {name!r} speaks api {getattr(transport, 'api', None)!r}, and this aiosearch"
            f" speaks api {API}; install matching versions"
        )
    return cast("Transport", transport)
