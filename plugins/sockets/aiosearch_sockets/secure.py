"""What goes over a connection: two hellos, two proofs, then frames that nobody else could make.

The caller says hello, then the listener. Each hello holds the number of the protocol and a nonce.
The caller proves first that it has the token, so that a stranger is never given anything that was
made from it; then the listener does. Keys come from the token and both hellos, one for each
direction, so that a frame is worth nothing on another connection or on the way back.

A frame is its length, a MAC, the payload and another MAC. Each MAC covers its own number in the
stream: what is changed, left out, repeated or moved does not fit. The length has a MAC of its own
because a changed one would have us wait for bytes, and keep them, until the frame seems whole.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from hashlib import blake2b

from aiosearch import AiosearchError
from aiosearch.remote.links import MOST_BYTES, UnwelcomeError

PROTOCOL = 1
"""The number of this protocol. Magic, number and nonce stay where they are in all versions."""
MAGIC = b"AIOSRCH\n"
HELLO_BYTES = len(MAGIC) + 4 + 32
PROOF_BYTES = 32
LENGTH_BYTES = 4
MAC_BYTES = 16
REFUSAL = bytes(PROOF_BYTES)
"""Sent in the place of a proof to a caller that has another token."""


class FrameError(AiosearchError):
    """What came was not made by the other end of this connection, or not for this place in it."""


class MismatchError(FrameError, UnwelcomeError):
    """The two sides have different tokens, or speak different protocols: trying again is no use."""


class Secure:
    """One end of a connection, without the connection: bytes in, bytes out.

    After an error it takes nothing any more.
    """

    __slots__ = (
        "_buffer", "_caller", "_opens", "_ours", "_outgoing", "_seals", "_take", "_theirs",
        "_token", "_wanted",
    )  # fmt: skip

    def __init__(self, token: bytes, caller: bool) -> None:
        self._token = token
        self._caller = caller
        self._ours = MAGIC + PROTOCOL.to_bytes(4, "little") + secrets.token_bytes(32)
        self._theirs = b""
        self._buffer = bytearray()
        self._outgoing = b""
        self._wanted = HELLO_BYTES
        self._take: Callable[[memoryview], bytes | None] = self._take_hello
        self._seals: _Macs | None = None
        self._opens: _Macs | None = None

    @property
    def trusted(self) -> bool:
        """Whether the other side has shown that it has the token; before, there are no payloads."""
        return self._opens is not None

    def begin(self) -> bytes:
        """Gives what is to be sent first. A listener says nothing before it has heard a hello."""
        return self._ours if self._caller else b""

    def outgoing(self) -> bytes:
        """Gives, once, what the handshake wants sent; also after an error."""
        outgoing, self._outgoing = self._outgoing, b""
        return outgoing

    def seal(self, payload: bytes) -> bytes:
        """Makes the next frame of a payload. Frames have to be sent in the order in which
        `seal` made them."""
        if len(payload) > MOST_BYTES:
            raise ValueError(f"a message of {len(payload)} bytes is longer than {MOST_BYTES}")
        if self._seals is None:
            raise ValueError("there are no frames before the handshake is done")
        length = len(payload).to_bytes(LENGTH_BYTES, "little")
        return b"".join((length, self._seals.next(length), payload, self._seals.next(payload)))

    def feed(self, data: bytes) -> list[bytes]:
        """Takes what came, however it was cut, and gives the payloads that it completes.

        Keeps no more than what came of one unfinished part; before the other side is
        trusted, parts have a fixed length. Raises `FrameError` at the first byte of a part
        that is wrong.
        """
        payloads = []
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= self._wanted:
                end = start + self._wanted
                with memoryview(self._buffer) as whole, whole[start:end] as part:
                    payload = self._take(part)
                start = end
                if payload is not None:
                    payloads.append(payload)
        except FrameError:
            self._buffer = bytearray()
            self._wanted = 0
            self._take = self._take_nothing
            raise
        del self._buffer[:start]
        return payloads

    def _take_hello(self, part: memoryview) -> None:
        """Answers a hello of any version, because only so the other side can name both."""
        if part[: len(MAGIC)] != MAGIC:
            raise FrameError("the other side does not speak the protocol of aiosearch-sockets")
        self._theirs = bytes(part)
        if not self._caller:
            self._outgoing += self._ours
        protocol = int.from_bytes(part[len(MAGIC) : len(MAGIC) + 4], "little")
        if protocol != PROTOCOL:
            raise MismatchError(
                f"the other side speaks protocol {protocol} of aiosearch-sockets, and this side "
                f"protocol {PROTOCOL}; install matching versions"
            )
        if self._caller:
            self._outgoing += self._derive(b"proof of the caller")
        self._wanted, self._take = PROOF_BYTES, self._take_proof

    def _take_proof(self, part: memoryview) -> None:
        theirs, ours = b"proof of the caller", b"proof of the listener"
        if self._caller:
            theirs, ours = ours, theirs
        if not hmac.compare_digest(part, self._derive(theirs)):
            if not self._caller:
                self._outgoing += REFUSAL
            raise MismatchError("the other side has another token")
        if not self._caller:
            self._outgoing += self._derive(ours)
        self._start_frames()

    def _start_frames(self) -> None:
        macs = [_Macs(self._derive(b"frames of the " + role)) for role in (b"caller", b"listener")]
        self._seals, self._opens = macs if self._caller else reversed(macs)
        self._token = b""
        self._await_frame()

    def _await_frame(self) -> None:
        self._wanted, self._take = LENGTH_BYTES + MAC_BYTES, self._take_length

    def _take_length(self, part: memoryview) -> None:
        length = int.from_bytes(self._opened(part), "little")
        if length > MOST_BYTES:
            raise FrameError(f"a message of {length} bytes is longer than {MOST_BYTES}")
        self._wanted, self._take = length + MAC_BYTES, self._take_payload

    def _take_payload(self, part: memoryview) -> bytes:
        payload = self._opened(part)
        self._await_frame()
        return payload

    def _take_nothing(self, part: memoryview) -> None:
        raise FrameError("nothing is taken after an error")

    def _opened(self, part: memoryview) -> bytes:
        """Gives what stands before a MAC, if it is the right one for this place; else
        raises `FrameError`."""
        assert self._opens is not None
        with part[:-MAC_BYTES] as content, part[-MAC_BYTES:] as mac:
            if not hmac.compare_digest(mac, self._opens.next(content)):
                raise FrameError("a frame was not made by the other side, or not for this place")
            return bytes(content)

    def _derive(self, purpose: bytes) -> bytes:
        hellos = (self._ours, self._theirs) if self._caller else (self._theirs, self._ours)
        return hmac.digest(self._token, purpose + b"".join(hellos), "sha256")


class _Macs:
    """Signs what goes one way, each piece under its number, with a key of its own."""

    __slots__ = ("_key", "_number")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def next(self, content: bytes | memoryview) -> bytes:
        mac = blake2b(self._number.to_bytes(8, "little"), digest_size=MAC_BYTES, key=self._key)
        mac.update(content)
        self._number += 1
        return mac.digest()
