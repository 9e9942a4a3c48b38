"""A connection whose other side is trusted, as the engine's `Link`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiosearch.remote.links import MOST_BYTES, Delivery, LostError

from .addresses import Address
from .secure import FrameError, Secure

MOST_WAITING = MOST_BYTES
"""Bytes; a link on which more wait to be taken is closed."""
LINGER_SECONDS = 1.0
"""Seconds for which what was sent may still go out after `close`, and the other end may take to
leave."""


class TcpLink(asyncio.Protocol):
    """Takes over a transport after the handshake; `early` came with the end of it.

    Nothing is read before `open`, so that a peer can fill no memory of ours.
    """

    def __init__(self, transport: asyncio.Transport, secure: Secure, early: list[bytes]) -> None:
        self._transport = transport
        self._secure = secure
        self._early = early
        self._loop = asyncio.get_running_loop()
        self._linger: asyncio.TimerHandle | None = None
        self._gone = asyncio.Event()
        self._peer = peer_of(transport)
        self._delivery = Delivery(self._peer)
        transport.pause_reading()
        transport.set_protocol(self)

    @property
    def peer(self) -> str:
        return self._peer

    def open(self, received: Callable[[bytes], None], closed: Callable[[str], None]) -> None:
        if self._delivery.open(received, closed):
            self._loop.call_soon(self._begin)

    def send(self, payload: bytes) -> None:
        if self._delivery.ended is not None or self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > MOST_WAITING:
            self._fail(f"{self._peer} takes no messages: {MOST_WAITING} bytes are waiting for it")
            return
        self._transport.write(self._secure.seal(payload))

    def close(self, reason: str = "") -> None:
        if not self._delivery.end(reason or "closed on this side") or self._transport.is_closing():
            return
        # A socket that is closed with bytes unread resets the connection, and what we said last is
        # lost with it: so we only stop speaking, and read on until the other end leaves
        try:
            self._transport.write_eof()
        except OSError:  # the other end has reset it, which we had not read yet
            self._transport.abort()
            return
        self._transport.resume_reading()
        self._linger = self._loop.call_later(LINGER_SECONDS, self._transport.abort)

    async def wait_gone(self) -> None:
        """Waits, once the link is closed, until nothing is left of the connection:
        `LINGER_SECONDS` at most."""
        if self._delivery.ended is not None:
            await self._gone.wait()

    def data_received(self, data: bytes) -> None:
        if self._delivery.ended is not None:
            return
        try:
            self._delivery.deliver(self._secure.feed(data))
        except (FrameError, LostError) as error:
            self._fail(str(error))

    def eof_received(self) -> None:
        self._fail(f"{self._peer} closed the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._linger is not None:
            self._linger.cancel()
        self._delivery.end(f"the connection to {self._peer} broke: {exc or 'it was closed'}")
        self._gone.set()

    def _begin(self) -> None:
        early, self._early = self._early, []
        try:
            self._delivery.deliver(early)
        except LostError as error:
            self._fail(str(error))
        if self._delivery.ended is None:
            self._transport.resume_reading()

    def _fail(self, reason: str) -> None:
        self._delivery.end(reason)
        self._transport.abort()


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Names the other end as `host:port`; it may be gone already."""
    name = transport.get_extra_info("peername")
    return str(Address(*name[:2])) if name else "a host that left"
