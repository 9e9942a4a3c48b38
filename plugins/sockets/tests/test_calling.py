"""A call gives a trusted link, or says in one sentence why not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiosearch_sockets import FrameError, MismatchError, TcpListener, call, calling, secure
from testkit.hosts.loopback_links import PATIENCE, TOKEN, listening

from aiosearch import AiosearchError
from aiosearch.remote.links import Link, UnwelcomeError
from aiosearch.testing import no_leaks

OTHER = b"another token, also long enough"


@asynccontextmanager
async def impostor(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """Gives the address of a server that is not ours; nothing may be left behind."""
    async with no_leaks():
        done = asyncio.Event()

        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await answer(reader, writer)
            finally:
                writer.transport.abort()
                done.set()

        server = await asyncio.start_server(meet, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        try:
            yield f"{host}:{port}"
            async with asyncio.timeout(PATIENCE):
                await done.wait()
        finally:
            server.close()


async def test_another_token_is_one_sentence_for_the_caller() -> None:
    """And the listener takes the next one."""
    async with listening() as (address, joined):
        with pytest.raises(MismatchError, match=f"{address}: the other side has another token"):
            await call(address, OTHER)
        (await call(address, TOKEN)).close()
        (await joined.get()).close()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("nohost", "'nohost' is no address: write HOST:PORT"),
        ("127.0.0.1:99999", "is no address: write HOST:PORT"),
        ("192.0.2.1:7000", "is not on this machine: it needs a token file"),
    ],
)
async def test_what_cannot_be_called_is_not_to_be_tried_again(address: str, told: str) -> None:
    with pytest.raises(UnwelcomeError, match=told):
        await call(address)


async def test_who_does_not_have_the_token_is_not_believed() -> None:
    """The caller checks the listener too."""

    async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(secure.HELLO_BYTES)
        writer.write(secure.MAGIC + (secure.PROTOCOL).to_bytes(4, "little") + bytes(32))
        await reader.readexactly(secure.PROOF_BYTES)
        writer.write(b"\x01" * secure.PROOF_BYTES)
        await reader.read()

    async with impostor(pretend) as address:
        with pytest.raises(MismatchError, match="the other side has another token"):
            await call(address, TOKEN)


async def test_another_version_is_refused_by_name() -> None:
    async def newer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(secure.HELLO_BYTES)
        writer.write(secure.MAGIC + (2).to_bytes(4, "little") + bytes(32))
        await reader.read()

    async with impostor(newer) as address:
        with pytest.raises(MismatchError, match=r"speaks protocol 2 .* this side protocol 1;"):
            await call(address, TOKEN)


async def test_a_server_of_something_else_is_one_sentence() -> None:
    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await reader.read()

    async with impostor(web) as address:
        with pytest.raises(FrameError, match="does not speak the protocol"):
            await call(address, TOKEN)


async def test_a_connection_that_is_closed_too_early_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After some attempts: it may have been one too many at once."""
    monkeypatch.setattr(calling, "PAUSES", (0.0, 0.0))
    calls = 0

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        await reader.readexactly(secure.HELLO_BYTES)

    async with impostor(leave) as address:
        with pytest.raises(AiosearchError, match="closed the connection before it proved itself"):
            await call(address, TOKEN)
    assert calls == 3


async def test_a_server_that_says_nothing_is_waited_for_no_longer_than_asked() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with impostor(silent) as address:
        with pytest.raises(AiosearchError, match=r"did not answer within 0\.05 s"):
            await call(address, TOKEN, seconds=0.05)


async def test_a_call_that_is_cancelled_leaves_nothing() -> None:
    met = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.set()
        await reader.read()

    async with impostor(silent) as address:
        task = asyncio.create_task(call(address, TOKEN))
        await met.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("turns", range(12))
async def test_a_call_may_be_cancelled_at_any_moment(turns: int) -> None:
    """Also when the link is there and nobody has it yet."""
    async with listening() as (address, joined):
        task = asyncio.create_task(call(address, TOKEN))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            (await task).close()
        # The listener is closed only after it has heard of that call
        (await call(address, TOKEN)).close()
        (await joined.get()).close()
        while not joined.empty():
            joined.get_nowait().close()


async def test_an_address_where_nobody_listens_is_one_sentence() -> None:
    async with no_leaks():
        listener = TcpListener("127.0.0.1:0", TOKEN)
        await listener.start(lambda link: None)
        await listener.close()
        with pytest.raises(AiosearchError, match=f"nobody listens on {listener.address}"):
            await call(listener.address, TOKEN)


async def test_a_name_that_is_no_host_is_one_sentence() -> None:
    async with no_leaks():
        with pytest.raises(AiosearchError, match="there is no such host"):
            await call("no-such-host.invalid:7000", TOKEN)


async def test_another_machine_is_not_called_without_a_token() -> None:
    with pytest.raises(AiosearchError, match="is not on this machine: it needs a token file"):
        await call("192.0.2.1:7000")


async def test_more_hosts_may_call_at_once_than_there_may_be_handshakes() -> None:
    async with listening() as (address, joined):
        links: list[Link] = await asyncio.gather(*(call(address, TOKEN) for _ in range(100)))
        for link in links:
            link.close()
            (await joined.get()).close()
