from __future__ import annotations

from aiosearch.engine.journal.earlier_keys import PART_BYTES, KeyChunks


def test_keys_come_out_in_parts_that_are_not_too_large() -> None:
    """All of them, in order, however they were put in; and beyond the last part there is none."""
    known = KeyChunks()
    pieces = [bytes([number % 256]) * 16 * (number % 128 + 1) for number in range(300)]
    for piece in pieces:
        known.add(piece)
    parts = []
    while part := known.part(len(parts)):
        parts.append(part)
    assert b"".join(parts) == b"".join(pieces)
    assert max(map(len, parts)) <= PART_BYTES
    assert len(parts) <= 2 * sum(map(len, pieces)) / PART_BYTES


def test_without_keys_there_is_no_part() -> None:
    assert KeyChunks().part(0) == b""
