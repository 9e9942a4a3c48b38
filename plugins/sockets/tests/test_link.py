"""Messages arrive whole, once and in order, or the link closes, once."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
from aiosearch_sockets import greeting, link
from testkit.hosts.loopback_links import PATIENCE, Ear, Raw, linked, listening, raw


async def test_messages_go_both_ways_in_order() -> None:
    async with linked() as (here, there):
        for number in range(100):
            here.link.send(b"up %d" % number)
            there.link.send(b"down %d" % number)
        assert [await there.heard() for _ in range(100)] == [b"up %d" % n for n in range(100)]
        assert [await here.heard() for _ in range(100)] == [b"down %d" % n for n in range(100)]


async def test_messages_of_any_length_arrive_whole() -> None:
    payloads = [b"", b"x", bytes(range(256)) * 40_000, b"last"]
    async with linked() as (here, there):
        for payload in payloads:
            here.link.send(payload)
        assert [await there.heard() for _ in payloads] == payloads


async def test_nothing_is_delivered_before_a_link_is_opened() -> None:
    """What comes before waits, and then comes in order; also when it came with the handshake."""
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        peer.writer.write(b"".join(peer.secure.seal(b"%d" % number) for number in range(5)))
        one = await joined.get()
        async with raw(address) as other:  # by the time that it is in, all that has come
            await other.introduce()
        (await joined.get()).close()
        late = Ear(one)
        assert [await late.heard() for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
        late.link.close()


async def test_a_link_that_nobody_opens_takes_no_more_than_the_kernel_does() -> None:
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        unopened = await joined.get()
        for _ in range(64):
            peer.writer.write(peer.secure.seal(bytes(1 << 20)))
            await asyncio.sleep(0)
        assert peer.writer.transport.get_write_buffer_size() > 32 << 20
        unopened.close()


async def test_a_peer_may_send_byte_by_byte() -> None:
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        ear = Ear(await joined.get())
        for byte in peer.secure.seal(b"slow") + peer.secure.seal(b"and steady"):
            peer.writer.write(bytes([byte]))
            await peer.writer.drain()
            await asyncio.sleep(0)
        assert [await ear.heard(), await ear.heard()] == [b"slow", b"and steady"]
        ear.link.close()


async def test_a_peer_that_takes_nothing_loses_its_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it takes no more of our memory than one message beyond the limit."""
    monkeypatch.setattr(link, "MOST_WAITING", 1 << 20)
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        ear = Ear(await joined.get())
        while ear.reasons.empty():
            ear.link.send(bytes(1 << 18))
            await asyncio.sleep(0)
        assert "takes no messages: 1048576 bytes are waiting" in await ear.ended()
        await peer.left()


async def test_a_forged_frame_ends_the_link_and_no_other() -> None:
    async with listening() as (address, joined), raw(address) as forger, raw(address) as friend:
        await forger.introduce()
        victim = Ear(await joined.get())
        await friend.introduce()
        other = Ear(await joined.get())
        forger.writer.write(forger.secure.seal(b"good") + bytes(100))
        assert "not made by the other side" in await victim.ended()
        await forger.left()
        friend.writer.write(friend.secure.seal(b"still here"))
        assert await other.heard() == b"still here"
        other.link.close()


@pytest.mark.parametrize("wait", [True, False])
async def test_closing_is_told_to_both_sides(wait: bool) -> None:
    """Each hears it once, also when it closes twice, and nothing is delivered or sent after."""
    async with linked() as (here, there):
        if wait:
            here.link.send(b"last words")
            assert await there.heard() == b"last words"
        here.link.close("enough")
        here.link.close("more than enough")
        here.link.send(b"unheard")
        assert await here.ended() == "enough"
        assert "closed the connection" in await there.ended()
        there.link.send(b"unheard")
        assert there.messages.empty()


async def test_last_words_arrive() -> None:
    """What was sent before the link was closed is not taken back."""
    async with linked() as (here, there):
        here.link.send(b"farewell" * 10_000)
        here.link.close()
        assert await there.heard() == b"farewell" * 10_000
        await there.ended()


async def test_who_speaks_all_the_time_is_not_cut_off_before_it_heard_the_last_words() -> None:
    """What it says is not read any more, and resets nothing."""
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        unopened = await joined.get()
        peer.writer.write(bytes(1 << 16))
        unopened.send(b"farewell")
        unopened.close()
        for _ in range(50):
            peer.writer.write(b"still here")
            await peer.writer.drain()
            await asyncio.sleep(0)
        assert peer.secure.feed(await peer.reader.read()) == [b"farewell"]


async def speak_on(peer: Raw) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            peer.writer.write(b"still here")
            await peer.writer.drain()
            await asyncio.sleep(0)


async def test_a_link_may_be_closed_after_its_peer_has_reset_the_connection() -> None:
    async with listening() as (address, joined):
        async with raw(address) as peer:
            await peer.introduce()
            unopened = await joined.get()
            reset = struct.pack("ii", 1, 0)
            connection = peer.writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        await asyncio.sleep(0)
        unopened.close("too late")
        assert await Ear(unopened).ended() == "too late"


async def test_a_peer_that_does_not_leave_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """It hears that the link was closed, and has a moment to close it too."""
    monkeypatch.setattr(link, "LINGER_SECONDS", 0.02)
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        (await joined.get()).close()
        assert await peer.reader.read() == b""
        with pytest.raises(ConnectionError):
            await speak_on(peer)


async def test_both_sides_may_close_at_once() -> None:
    async with linked() as (here, there):
        here.link.close("here")
        there.link.close("there")
        assert (await here.ended(), await there.ended()) == ("here", "there")


async def test_a_link_that_closed_before_it_was_opened_tells_it_then() -> None:
    """What it had to say before is dropped with it."""
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        unopened = await joined.get()
        peer.writer.write(peer.secure.seal(b"unheard"))
        unopened.close("not wanted")
        await peer.left()
        ear = Ear(unopened)
        assert await ear.ended() == "not wanted"
        assert ear.messages.empty()


async def test_a_peer_that_left_before_the_link_was_opened_is_told_then() -> None:
    async with listening() as (address, joined):
        async with raw(address) as peer:
            await peer.introduce()
            unopened = await joined.get()
        ear = Ear(unopened)
        assert unopened.peer in await ear.ended()


async def test_a_link_may_be_closed_by_what_it_delivers() -> None:
    """Of the messages that came with that one, none is delivered."""
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        one = await joined.get()
        heard: list[bytes] = []
        ended: asyncio.Queue[str] = asyncio.Queue()

        def received(payload: bytes) -> None:
            heard.append(payload)
            one.close("heard enough")

        one.open(received, ended.put_nowait)
        peer.writer.write(b"".join(map(peer.secure.seal, (b"first", b"second", b"third"))))
        async with asyncio.timeout(PATIENCE):
            assert await ended.get() == "heard enough"
        await peer.left()
        assert heard == [b"first"]


async def test_an_error_of_who_listens_closes_the_link_and_nothing_else() -> None:
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        one = await joined.get()
        ended: asyncio.Queue[str] = asyncio.Queue()

        def received(payload: bytes) -> None:
            raise ValueError(f"{payload!r} is no message")

        one.open(received, ended.put_nowait)
        peer.writer.write(peer.secure.seal(b"nonsense") + peer.secure.seal(b"more"))
        async with asyncio.timeout(PATIENCE):
            assert "failed: ValueError: b'nonsense' is no message" in await ended.get()
        await peer.left()
        assert ended.empty()


async def test_a_frozen_peer_does_not_keep_a_closed_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """The messages that wait for it have a moment to go out, and are dropped then."""
    monkeypatch.setattr(link, "LINGER_SECONDS", 0.02)
    async with listening() as (address, joined), raw(address) as peer:
        await peer.introduce()
        ear = Ear(await joined.get())
        for _ in range(64):
            ear.link.send(bytes(1 << 18))
        ear.link.close("gave up")
        assert await ear.ended() == "gave up"
        await peer.left()


async def test_a_link_knows_who_is_at_the_other_end() -> None:
    async with linked() as (here, there):
        assert here.link.peer.startswith("127.0.0.1:")
        assert there.link.peer.startswith("127.0.0.1:")
        assert here.link.peer != there.link.peer


async def test_what_is_lost_is_sent_again_every_second_where_the_kernel_lets_us_say_so() -> None:
    """So that a link is silent for hardly longer than it was cut, and TCP does not give it up."""
    with socket.socket() as one:
        try:
            one.getsockopt(socket.IPPROTO_TCP, greeting.RTO_MAX_MS)
        except OSError:
            pytest.skip("this kernel does not")
    async with linked() as ends:
        for end in ends:
            assert isinstance(end.link, link.TcpLink)
            connection = end.link._transport.get_extra_info("socket")
            assert connection.getsockopt(socket.IPPROTO_TCP, greeting.RTO_MAX_MS) == 1000
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 900_000
