"""Accepts hosts on a TCP port, and hands over those that have the token, as a `Listener`."""

from __future__ import annotations

import asyncio
import errno
import shlex
import socket
import weakref
from collections.abc import Callable
from pathlib import Path

from aiosearch import AiosearchError
from aiosearch.remote.links import Link

from .addresses import Address, parse_address
from .greeting import Greeting
from .link import TcpLink
from .secure import Secure
from .tokens import own_token

HANDSHAKE_SECONDS = 5.0
MOST_GREETINGS = 64
"""Connections that may be in their handshake; for one more, the oldest is dropped."""


class TcpListener:
    """A port that hosts with the token may join through.

    Without an address it is a free port of this machine, and nobody else can get there. There,
    and only there, the token may be left out: it is the user's own then, and `token_file` says
    where it is kept.
    """

    covers_here = False

    def __init__(
        self,
        address: str = "127.0.0.1:0",
        token: bytes | None = None,
        token_file: Path | None = None,
    ) -> None:
        self._wanted = parse_address(address)
        self.token_file = token_file
        if token is None:
            if not self._wanted.is_loopback:
                raise AiosearchError(f"others can get to {address}: it needs a token file")
            token, self.token_file = own_token()
        self._token = token
        self._greetings: dict[Greeting, asyncio.TimerHandle] = {}
        self._server: asyncio.Server | None = None
        self._links: weakref.WeakSet[TcpLink] = weakref.WeakSet()
        self._closed = False

    @property
    def address(self) -> str:
        if self._server is None:
            raise RuntimeError("a listener has its address once it has started")
        return self._address

    @property
    def invitation(self) -> str:
        words = ["aiosearch", "worker", "--connect", self.address]
        if self.token_file is not None:
            words += ["--token-file", str(self.token_file)]
        return shlex.join(words)

    async def start(self, joined: Callable[[Link], None]) -> None:
        self._joined = joined
        loop = asyncio.get_running_loop()
        host, port = self._wanted
        try:
            # The backlog is also how many are accepted in one turn of the loop
            self._server = await loop.create_server(self._greet, host, port, backlog=MOST_GREETINGS)
        except OSError as error:
            raise AiosearchError(_explained(self._wanted, error)) from None
        self._address = str(Address(*self._server.sockets[0].getsockname()[:2]))

    async def close(self) -> None:
        """Also waits for links that were closed to be gone, so that their last words arrive."""
        self._closed = True
        if self._server is not None:
            self._server.close()  # not awaited: it would wait for the links, which stay open
        for greeting in list(self._greetings):
            greeting.drop("came when nobody listened any more")
        await asyncio.gather(*(link.wait_gone() for link in self._links))

    def _greet(self) -> Greeting:
        if len(self._greetings) >= MOST_GREETINGS:
            next(iter(self._greetings)).drop("was the oldest of too many that did not prove it")
        greeting = Greeting(Secure(self._token, caller=False), self._settled)
        loop = asyncio.get_running_loop()
        self._greetings[greeting] = loop.call_later(
            0 if self._closed else HANDSHAKE_SECONDS, greeting.drop, "did not prove itself in time"
        )
        return greeting

    def _settled(self, greeting: Greeting, outcome: TcpLink | AiosearchError) -> None:
        self._greetings.pop(greeting).cancel()
        if isinstance(outcome, TcpLink):
            self._links.add(outcome)
            self._joined(outcome)


def _explained(address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"{address} is in use; name another port, or 0 for one that is free"
    if isinstance(error, socket.gaierror):
        return f"cannot listen on {address}: there is no such host"
    return f"cannot listen on {address}: {error.strerror}"
