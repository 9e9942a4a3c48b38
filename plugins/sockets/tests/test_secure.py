"""Only what the other end of this very connection made, in its order, comes out."""

from __future__ import annotations

import tracemalloc
from copy import deepcopy

import pytest
from aiosearch_sockets import FrameError, MismatchError, Secure, secure
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TOKEN = b"a token of the tests, long enough"
PAYLOADS = [b"one", b"", b"three"]
FRAME = secure.LENGTH_BYTES + 2 * secure.MAC_BYTES
"""What a frame has beside its payload."""


def strangers(theirs: bytes = TOKEN) -> tuple[Secure, Secure]:
    return Secure(TOKEN, caller=True), Secure(theirs, caller=False)


def introduce(caller: Secure, listener: Secure) -> tuple[bytes, bytes]:
    """Goes through the handshake; gives what each side sent."""
    hello = caller.begin()
    listener.feed(hello)
    answer = listener.outgoing()
    caller.feed(answer)
    proof = caller.outgoing()
    listener.feed(proof)
    last = listener.outgoing()
    caller.feed(last)
    return hello + proof, answer + last


def friends() -> tuple[Secure, Secure]:
    caller, listener = strangers()
    introduce(caller, listener)
    return caller, listener


def recorded(speaker_calls: bool) -> tuple[Secure, bytes]:
    """Gives one side as it was at the start, and all that the other sent to it."""
    caller, listener = strangers()
    speaker, hearer = (caller, listener) if speaker_calls else (listener, caller)
    at_start = deepcopy(hearer)
    handshakes = introduce(caller, listener)
    return at_start, handshakes[0 if speaker_calls else 1] + b"".join(map(speaker.seal, PAYLOADS))


def test_a_listener_says_nothing_to_those_who_do_not_say_hello() -> None:
    """Nor does it keep what they said."""
    _, listener = strangers()
    assert listener.begin() == b""
    with pytest.raises(FrameError, match="does not speak the protocol"):
        listener.feed(b"GET / HTTP/1.1\r\nHost: example.org\r\n" + bytes(1000))
    assert listener.outgoing() == b""
    assert not listener.trusted


def test_both_sides_are_trusted_after_the_handshake() -> None:
    caller, listener = friends()
    assert caller.trusted
    assert listener.trusted
    assert listener.feed(caller.seal(b"to the listener")) == [b"to the listener"]
    assert caller.feed(listener.seal(b"to the caller")) == [b"to the caller"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=300), max_size=8), st.lists(st.integers(1, 60)), st.booleans())
def test_payloads_survive_any_cut(payloads: list[bytes], cuts: list[int], calls: bool) -> None:
    """However a stream arrives, handshake included, the payloads in it are the same."""
    caller, listener = strangers()
    speaker, hearer = (caller, listener) if calls else (listener, caller)
    fresh = deepcopy(hearer)
    stream = introduce(caller, listener)[0 if calls else 1]
    stream += b"".join(map(speaker.seal, payloads))
    found = []
    for cut in cuts:
        found += fresh.feed(stream[:cut])
        stream = stream[cut:]
    found += fresh.feed(stream)
    assert found == payloads


@pytest.mark.parametrize("speaker_calls", [True, False])
def test_every_bit_counts(speaker_calls: bool) -> None:
    """A session with a single bit changed, wherever it is, is refused; the unchanged one is not."""
    hearer, stream = recorded(speaker_calls)
    assert deepcopy(hearer).feed(stream) == PAYLOADS
    for bit in range(8 * len(stream)):
        changed = bytearray(stream)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FrameError):
            deepcopy(hearer).feed(changed)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_other_streams_give_no_other_payloads(data: st.DataObject) -> None:
    """Whatever is done to a session, what comes out of it is a beginning of what went in."""
    hearer, stream = recorded(speaker_calls=True)
    start = data.draw(st.integers(0, len(stream)))
    end = data.draw(st.integers(start, len(stream)))
    changed = stream[:start] + data.draw(st.binary(max_size=50)) + stream[end:]
    found = []
    try:
        for at in range(len(changed)):
            found += hearer.feed(changed[at : at + 1])
    except FrameError:
        pass
    assert found == PAYLOADS[: len(found)]


def test_a_frame_is_taken_once() -> None:
    caller, listener = friends()
    frame = caller.seal(b"pay")
    assert listener.feed(frame) == [b"pay"]
    with pytest.raises(FrameError, match="not for this place"):
        listener.feed(frame)


def test_frames_keep_their_order() -> None:
    caller, listener = friends()
    frames = [caller.seal(b"first"), caller.seal(b"other")]
    with pytest.raises(FrameError):
        listener.feed(frames[1] + frames[0])


def test_a_missing_frame_is_noticed() -> None:
    caller, listener = friends()
    caller.seal(b"lost")
    with pytest.raises(FrameError):
        listener.feed(caller.seal(b"next"))


def test_a_frame_is_not_taken_back() -> None:
    """A side does not believe what it said itself."""
    caller, listener = friends()
    with pytest.raises(FrameError):
        caller.feed(caller.seal(b"echo"))
    with pytest.raises(FrameError):
        listener.feed(listener.seal(b"echo"))


def test_a_frame_of_another_connection_is_refused() -> None:
    """The token is the same, the keys are not."""
    (first, _), (_, second) = friends(), friends()
    with pytest.raises(FrameError):
        second.feed(first.seal(b"stolen"))


def test_parts_of_two_frames_make_no_third() -> None:
    """A length and its MAC go with the payload that they were made for only by their places."""
    caller, listener = friends()
    first, second = caller.seal(b"abc"), caller.seal(b"xyz")
    head = secure.LENGTH_BYTES + secure.MAC_BYTES
    with pytest.raises(FrameError):
        listener.feed(first[:head] + second[head:])


def test_a_session_cannot_be_replayed() -> None:
    """Each connection has nonces of its own, on both sides."""
    for speaker_calls in (True, False):
        _, stream = recorded(speaker_calls)
        caller, listener = strangers()
        hearer = listener if speaker_calls else caller
        with pytest.raises(MismatchError):
            hearer.feed(stream)


def test_a_hello_sent_back_is_no_way_in() -> None:
    """Who has no token cannot prove that it has, with the bytes of the other side either."""
    caller, _ = strangers()
    with pytest.raises(MismatchError):
        caller.feed(caller.begin() + caller.outgoing() + bytes(secure.PROOF_BYTES))
    caller, _ = strangers()
    caller.feed(caller.begin())
    with pytest.raises(MismatchError):
        caller.feed(caller.outgoing())


def test_another_token_is_refused_by_both_sides() -> None:
    """The listener finds out first, and tells; it gives nothing that was made from its token."""
    caller, listener = strangers(b"another token, also long enough")
    listener.feed(caller.begin())
    caller.feed(listener.outgoing())
    with pytest.raises(MismatchError, match="the other side has another token"):
        listener.feed(caller.outgoing())
    refusal = listener.outgoing()
    assert refusal == secure.REFUSAL
    with pytest.raises(MismatchError, match="the other side has another token"):
        caller.feed(refusal)


@pytest.mark.parametrize("calls", [True, False])
def test_another_version_is_refused_by_name(calls: bool) -> None:
    """Both are named, to both sides."""
    side = Secure(TOKEN, calls)
    hello = secure.MAGIC + (7).to_bytes(4, "little") + bytes(32)
    with pytest.raises(MismatchError, match=r"protocol 7 .* this side protocol 1;"):
        side.feed(hello)
    assert side.outgoing()[:12] == (b"" if calls else secure.MAGIC + (1).to_bytes(4, "little"))


def test_nothing_is_taken_after_an_error() -> None:
    caller, listener = friends()
    with pytest.raises(FrameError):
        listener.feed(bytes(FRAME))
    with pytest.raises(FrameError, match="after an error"):
        listener.feed(caller.seal(b"good"))


def test_a_length_alone_takes_no_memory() -> None:
    """Neither a stranger's, nor that of a peer who announces the longest message there is."""
    caller, listener = friends()
    frame = caller.seal(bytes(secure.MOST_BYTES))
    head = frame[: secure.LENGTH_BYTES + secure.MAC_BYTES]
    del frame
    tracemalloc.start()
    try:
        assert listener.feed(head) == []
        with pytest.raises(FrameError):
            strangers()[1].feed(b"\xff" * 1000)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_a_longer_message_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not sent, and not waited for."""
    caller, listener = friends()
    frame = caller.seal(bytes(101))
    monkeypatch.setattr(secure, "MOST_BYTES", 100)
    with pytest.raises(FrameError, match="101 bytes is longer than 100"):
        listener.feed(frame[:50])
    with pytest.raises(ValueError, match="101 bytes is longer than 100"):
        caller.seal(bytes(101))


def test_there_are_no_frames_before_the_handshake() -> None:
    with pytest.raises(ValueError, match="before the handshake"):
        strangers()[0].seal(b"early")


def test_no_error_tells_the_token() -> None:
    """Nor does the text of the object."""
    caller, listener = strangers(b"another token, also long enough")
    texts = [repr(caller), str(listener)]
    for data in (b"x" * 100, bytes(100)):
        with pytest.raises(FrameError) as caught:
            deepcopy(listener).feed(data)
        texts.append(repr(caught.value))
    with pytest.raises(MismatchError) as caught:
        introduce(caller, listener)
    texts.append(repr(caught.value))
    assert not any("token of" in text or "another token," in text for text in texts)
