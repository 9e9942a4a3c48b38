"""A node's path from the root as bytes that sort in depth-first order.

Each step is the child's index: one byte up to 239, else a byte 0xF0 + (n - 1) and n big-endian
bytes. No code is a prefix of another and larger indices have larger codes, so comparing two paths
as bytes compares them lexicographically. Paths serve messages and a tidy order, so a very long one
is cut short: copies of it would cost more than the search.
"""

from __future__ import annotations

_SMALL = 0xF0
LONGEST = 4096
ELIDED = b"\xff"
"""Ends a path whose further steps were left out; stands for step -1."""
_CODES = [bytes([index]) for index in range(_SMALL)]


def step(index: int) -> bytes:
    if index < _SMALL:
        return _CODES[index]
    size = (index.bit_length() + 7) // 8
    return bytes([_SMALL + size - 1]) + index.to_bytes(size, "big")


def steps(path: bytes) -> tuple[int, ...]:
    """Reads a path back as child indices."""
    found: list[int] = []
    at = 0
    while at < len(path):
        first = path[at]
        at += 1
        if first == ELIDED[0]:
            return (*found, -1)
        if first < _SMALL:
            found.append(first)
        else:
            size = first - _SMALL + 1
            found.append(int.from_bytes(path[at : at + size], "big"))
            at += size
    return tuple(found)


def shared_prefix(one: bytes, other: bytes) -> int:
    """Counts the leading bytes that both have."""
    if other.startswith(one):
        return len(one)
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
