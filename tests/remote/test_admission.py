"""What a search may have run on a host that serves it."""

from __future__ import annotations

import msgspec
import pytest

from aiosearch.engine.explore.bundles import ROOT
from aiosearch.engine.wire.messages import AddSubtrees, Begin, End, decode_for_worker, encode
from aiosearch.engine.wire.reference import ObjectReference
from aiosearch.remote.admission import RefusalError, admit, meaning

PROBLEM = ObjectReference("aiosearch.workloads.queens", "Queens")
ORDER = ObjectReference("aiosearch.orders", "DepthFirst")
BEGIN = Begin(1, PROBLEM, ORDER, "defer", False, "")

HEADERS = (lambda n: bytes([0xDC, n >> 8, n & 255]), lambda n: bytes([0xDD, 0, 0, 0, n]))
KINDS = (lambda n: bytes([n]), lambda n: bytes([0xCC, n]), lambda n: bytes([0xD2, 0, 0, 0, n]))


@pytest.mark.parametrize("message", [BEGIN, End(1)])
@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_worker_would_understand_is_understood_here(
    message: Begin | End, header: object, kind: object
) -> None:
    """However it is written: a length and a number can be said in several ways."""
    assert callable(header)
    assert callable(kind)
    fields = msgspec.msgpack.decode(encode(message))
    first, *others = fields
    frame = header(len(fields)) + kind(first) + b"".join(map(msgspec.msgpack.encode, others))
    assert decode_for_worker(frame) == message
    assert meaning(frame) == message


def test_other_messages_are_no_concern_of_this_host() -> None:
    assert meaning(encode(AddSubtrees(1, (ROOT,), 0.0, 1))) not in (BEGIN, End(1))


@pytest.mark.parametrize("frame", [b"", b"\xc1", b"\x91\x63", b"\x92\x01\x01"])
def test_what_no_worker_understands_is_passed_on_to_none(frame: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        meaning(frame)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"problem": ObjectReference("os", "system")}, "os:system is not installed"),
        ({"problem": ObjectReference("m", "C", pickled=b"c")}, "code is not accepted"),
        ({"problem": ObjectReference("m", "C", script="s.py")}, "code is not accepted"),
        ({"order": ObjectReference("os", "system")}, "the order os:system"),
        ({"order": ObjectReference("aiosearch.orders", "a.b")}, "the order aiosearch.orders:a.b"),
        ({"exchange": "os:system"}, "os:system is not installed"),
    ],
)
def test_only_what_is_installed_is_run(changes: dict[str, object], told: str) -> None:
    admit(BEGIN)
    with pytest.raises(RefusalError, match=told):
        admit(msgspec.structs.replace(BEGIN, **changes))
