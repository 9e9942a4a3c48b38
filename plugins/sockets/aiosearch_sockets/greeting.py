"""A connection on which nobody is trusted yet."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from aiosearch import AiosearchError

from .link import TcpLink, peer_of
from .secure import FrameError, Secure

KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""A host that lost its power is noticed after half a minute, also where nobody speaks."""


class Greeting(asyncio.Protocol):
    """Carries a handshake, and tells once how it ended: a link, or why there is none."""

    def __init__(
        self, secure: Secure, ended: Callable[[Greeting, TcpLink | AiosearchError], None]
    ) -> None:
        self._secure = secure
        self._ended = ended
        self._over = False
        self._transport: asyncio.Transport | None = None
        self._peer = "a host"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one without saying so
        if self._over:
            self._transport.abort()
            return
        self._peer = peer_of(transport)
        _tune(transport.get_extra_info("socket"))
        self._transport.write(self._secure.begin())

    def data_received(self, data: bytes) -> None:
        if self._over or self._transport is None:
            return
        try:
            payloads = self._secure.feed(data)
        except FrameError as error:
            # Not aborted: what the handshake has to say about it goes out
            self._transport.write(self._secure.outgoing())
            self._end(type(error)(f"{self._peer}: {error}"))
            self._transport.close()
            return
        self._transport.write(self._secure.outgoing())
        if self._secure.trusted:
            self._end(TcpLink(self._transport, self._secure, payloads))

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(AiosearchError(f"{self._peer} closed the connection before it proved itself"))

    def drop(self, reason: str) -> None:
        """Ends the connection at once, or as soon as it is made."""
        self._end(AiosearchError(f"{self._peer} {reason}"))
        if self._transport is not None:
            self._transport.abort()

    def _end(self, outcome: TcpLink | AiosearchError) -> None:
        if self._over:
            return
        self._over = True
        self._ended(self, outcome)


def _tune(connection: socket.socket) -> None:
    """Small messages go out at once; a host that vanished is noticed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if option := getattr(socket, name, None):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
