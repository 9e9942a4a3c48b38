"""Two ends of a link on loopback, and what they hear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiosearch_sockets import Secure, TcpListener, call, secure

from aiosearch.remote.links import Link
from aiosearch.testing import no_leaks

TOKEN = b"a token of the tests, long enough"
PATIENCE = 20
"""Seconds after which what a test waits for is not coming."""
TURNS = 5


class Ear:
    """Opens a link and keeps what it delivers."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.messages: asyncio.Queue[bytes] = asyncio.Queue()
        self.reasons: asyncio.Queue[str] = asyncio.Queue()
        link.open(self.messages.put_nowait, self.reasons.put_nowait)

    async def heard(self) -> bytes:
        """Waits for the next message."""
        async with asyncio.timeout(PATIENCE):
            return await self.messages.get()

    async def ended(self) -> str:
        """Waits until the link is closed, and says why; the reason is told only once."""
        async with asyncio.timeout(PATIENCE):
            reason = await self.reasons.get()
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert self.reasons.empty()
        return reason


@asynccontextmanager
async def listening(token: bytes = TOKEN) -> AsyncIterator[tuple[str, asyncio.Queue[Link]]]:
    """Gives a listener's address and who joins; nothing may be left behind."""
    async with no_leaks():
        joined: asyncio.Queue[Link] = asyncio.Queue()
        listener = TcpListener("127.0.0.1:0", token)
        await listener.start(joined.put_nowait)
        try:
            yield listener.address, joined
        finally:
            await listener.close()


@asynccontextmanager
async def linked() -> AsyncIterator[tuple[Ear, Ear]]:
    """Gives the caller's end and the listener's; nothing may be left behind."""
    async with listening() as (address, joined):
        here = Ear(await call(address, TOKEN))
        there = Ear(await joined.get())
        try:
            yield here, there
        finally:
            here.link.close()
            there.link.close()


class Raw:
    """A peer that speaks to a listener by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.secure = Secure(TOKEN, caller=True)

    async def begin(self) -> None:
        """Exchanges hellos, and does not say its proof yet."""
        self.writer.write(self.secure.begin())
        self.secure.feed(await self.reader.readexactly(secure.HELLO_BYTES))

    async def prove(self) -> None:
        """Exchanges proofs, after hellos."""
        self.writer.write(self.secure.outgoing())
        self.secure.feed(await self.reader.readexactly(secure.PROOF_BYTES))

    async def introduce(self) -> None:
        """Goes through the whole handshake, and not a byte further."""
        await self.begin()
        await self.prove()

    async def left(self) -> None:
        """Waits until the other side has left, by closing or by a reset."""
        async with asyncio.timeout(PATIENCE):
            try:
                while await self.reader.read(1 << 16):
                    pass
            except ConnectionResetError:
                return


@asynccontextmanager
async def raw(address: str) -> AsyncIterator[Raw]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Raw(reader, writer)
    finally:
        writer.transport.abort()
