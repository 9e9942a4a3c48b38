"""The keys that earlier runs of a search explored, for claim tables that are made later."""

from __future__ import annotations

PART_BYTES = 32 * 1024
"""Bytes that are sent at once: a link is never busy with them for long."""


class KeyChunks:
    """Keys of 16 bytes each, in parts of `PART_BYTES`."""

    def __init__(self) -> None:
        self._parts: list[bytearray] = []

    def add(self, keys: bytes) -> None:
        if not self._parts or len(self._parts[-1]) + len(keys) > PART_BYTES:
            self._parts.append(bytearray())
        self._parts[-1] += keys

    def part(self, number: int) -> bytes:
        """One part, counted from 0; empty beyond the last."""
        return bytes(self._parts[number]) if number < len(self._parts) else b""
