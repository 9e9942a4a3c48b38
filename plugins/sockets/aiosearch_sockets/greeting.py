"""A connection on which nobody is trusted yet: it carries the handshake of `Secure`."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from aiosearch import AiosearchError

from .link import TcpLink, peer_of
from .secure import FrameError, Secure

RTO_MAX_MS = 44
"""The socket option for how many milliseconds after its loss something is sent again at the latest.

The number is Linux's, from 6.15 on; Python has no name for it yet.
"""
AGAIN_MS, FOR_MS = 1000, 900_000
"""What was lost is sent again every second, for as long as a kernel would that was told nothing.

Left alone, each pause is twice the one before: a link is silent for up to twice as long as it was
cut, and given up although the cut was shorter than the patience. Told only how often, a kernel
gives a connection up itself after 15 of these; where it has no network at all, it still does.
"""


class Greeting(asyncio.Protocol):
    """Carries a handshake, and tells once how it ended: a `TcpLink`, or why there is none."""

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
        """Ends the connection at once, or as soon as it is made, with a `reason`."""
        self._end(AiosearchError(f"{self._peer} {reason}"))
        if self._transport is not None:
            self._transport.abort()

    def _end(self, outcome: TcpLink | AiosearchError) -> None:
        if self._over:
            return
        self._over = True
        self._ended(self, outcome)


def _tune(connection: socket.socket) -> None:
    """Sets options: small messages go out at once, and lost ones are sent again soon."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        with suppress(OSError):  # an older kernel
            connection.setsockopt(socket.IPPROTO_TCP, RTO_MAX_MS, AGAIN_MS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, FOR_MS)
