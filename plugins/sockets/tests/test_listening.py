"""A port lets in who has the token, whoever else is there."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress

import pytest
from aiosearch_sockets import Secure, TcpListener, call, listening, own_token, secure
from testkit.hosts.loopback_links import TOKEN, Ear, raw
from testkit.hosts.loopback_links import listening as some_listener

from aiosearch import AiosearchError
from aiosearch.remote.links import Link
from aiosearch.testing import no_leaks

HALF_OPEN = 1000


async def works(address: str, joined: asyncio.Queue[Link]) -> None:
    """A host with the token gets in, and its messages through."""
    here = Ear(await call(address, TOKEN))
    there = Ear(await joined.get())
    here.link.send(b"hello")
    assert await there.heard() == b"hello"
    here.link.close()
    await there.ended()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:7000", "example.org:7000"])
def test_an_address_that_others_can_get_to_needs_a_token(address: str) -> None:
    with pytest.raises(AiosearchError, match=r"others can get to .* it needs a token file"):
        TcpListener(address)


async def test_a_listener_without_arguments_is_for_its_user() -> None:
    """It takes a free port of this machine and the user's own token, and says where that is."""
    async with no_leaks():
        listener = TcpListener()
        token, path = own_token()
        assert listener.token_file == path
        joined: asyncio.Queue[Link] = asyncio.Queue()
        await listener.start(joined.put_nowait)
        host, _, port = listener.address.rpartition(":")
        assert host == "127.0.0.1"
        assert int(port) > 0
        for given in (None, token):
            link = await call(listener.address, given)
            link.close()
            (await joined.get()).close()
        await listener.close()


async def test_ipv6_addresses_have_brackets() -> None:
    async with no_leaks():
        listener = TcpListener("[::1]:0", TOKEN)
        joined: asyncio.Queue[Link] = asyncio.Queue()
        await listener.start(joined.put_nowait)
        assert listener.address.startswith("[::1]:")
        await works(listener.address, joined)
        await listener.close()


async def test_an_address_in_use_is_one_sentence() -> None:
    async with some_listener() as (address, joined):
        second = TcpListener(address, TOKEN)
        with pytest.raises(AiosearchError, match=f"{address} is in use; name another port"):
            await second.start(joined.put_nowait)
        await second.close()


async def test_an_address_of_another_machine_is_one_sentence() -> None:
    async with no_leaks():
        listener = TcpListener("192.0.2.1:7000", TOKEN)
        with pytest.raises(AiosearchError, match=r"cannot listen on 192\.0\.2\.1:7000: "):
            await listener.start(lambda link: None)


async def test_a_name_that_is_no_host_is_one_sentence() -> None:
    async with no_leaks():
        listener = TcpListener("no-such-host.invalid:7000", TOKEN)
        with pytest.raises(AiosearchError, match="there is no such host"):
            await listener.start(lambda link: None)


def test_a_listener_has_no_address_before_it_has_started() -> None:
    with pytest.raises(RuntimeError, match="once it has started"):
        _ = TcpListener("127.0.0.1:0", TOKEN).address


async def test_nobody_joins_after_a_listener_was_closed() -> None:
    """Handshakes that are not done are ended; closing again does nothing; links stay open."""
    async with no_leaks():
        listener = TcpListener("127.0.0.1:0", TOKEN)
        joined: asyncio.Queue[Link] = asyncio.Queue()
        await listener.start(joined.put_nowait)
        here = Ear(await call(listener.address, TOKEN))
        there = Ear(await joined.get())
        async with raw(listener.address) as unfinished:
            await unfinished.begin()
            await listener.close()
            await listener.close()
            await unfinished.left()
        with pytest.raises(AiosearchError, match="nobody listens"):
            await call(listener.address, TOKEN)
        here.link.send(b"still there")
        assert await there.heard() == b"still there"
        here.link.close()
        await there.ended()
        assert joined.empty()


async def test_a_handshake_has_to_be_done_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HANDSHAKE_SECONDS", 0.05)
    async with some_listener() as (address, joined), raw(address) as silent, raw(address) as slow:
        slow.writer.write(slow.secure.begin()[:-1])
        await silent.left()
        await slow.left()
        await works(address, joined)


async def test_the_oldest_of_too_many_handshakes_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "MOST_GREETINGS", 2)
    async with some_listener() as (address, joined), raw(address) as first, raw(address) as second:
        await first.begin()
        await second.begin()
        async with raw(address) as third:
            await first.left()
            await third.introduce()
            await second.prove()
        (await joined.get()).close()
        (await joined.get()).close()


async def test_half_open_connections_do_not_stop_a_good_one() -> None:
    async with some_listener() as (address, joined):
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        idle = [socket.socket() for _ in range(HALF_OPEN)]
        try:
            for one in idle:
                one.setblocking(False)
                await loop.sock_connect(one, (host, int(port)))
            await works(address, joined)
        finally:
            for one in idle:
                one.close()


@pytest.mark.parametrize("noise", [b"GET / HTTP/1.1\r\n" * 4, bytes(100), b"\x16\x03\x01" * 30])
async def test_who_speaks_something_else_hears_nothing(noise: bytes) -> None:
    async with some_listener() as (address, joined):
        async with raw(address) as stranger:
            stranger.writer.write(noise)
            with suppress(ConnectionResetError):  # it had more to say than was read
                assert await stranger.reader.read() == b""
        await works(address, joined)


async def test_a_recorded_session_opens_nothing() -> None:
    """What a host with the token said once lets nobody else in."""
    async with some_listener() as (address, joined):
        async with raw(address) as owner:
            await owner.begin()
            said = owner.secure.begin() + owner.secure.outgoing()
            owner.writer.write(said[secure.HELLO_BYTES :])
            (await joined.get()).close()
        async with raw(address) as thief:
            thief.writer.write(said)
            heard = await thief.reader.readexactly(secure.HELLO_BYTES + secure.PROOF_BYTES)
            assert heard.endswith(secure.REFUSAL)
            await thief.left()
        assert joined.empty()


async def test_another_version_hears_which_one_is_here() -> None:
    async with some_listener() as (address, joined), raw(address) as newer:
        newer.writer.write(secure.MAGIC + (2).to_bytes(4, "little") + bytes(32))
        answer = await newer.reader.readexactly(secure.HELLO_BYTES)
        assert answer.startswith(secure.MAGIC + (1).to_bytes(4, "little"))
        await newer.left()
        assert joined.empty()


async def test_the_token_is_told_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Not in logs, nor in the texts of listeners and errors."""
    caplog.set_level(logging.DEBUG)
    async with some_listener() as (address, _):
        with pytest.raises(AiosearchError) as caught:
            await call(address, b"another token, also long enough")
    texts = [caplog.text, repr(caught.value), repr(TcpListener("127.0.0.1:0", TOKEN))]
    texts.append(repr(Secure(TOKEN, caller=True)))
    assert not any(TOKEN.decode() in text or "also long enough" in text for text in texts)
