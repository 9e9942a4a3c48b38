r"""A node's path from the root as bytes that sort in depth-first order.

Each step is the child's index: one byte up to 239, else a byte 0xF0 + (n - 1) and n big-endian
bytes. No code is a prefix of another and larger indices have larger codes, so comparing two paths
as bytes compares them lexicographically. Paths serve messages and a tidy order, so a very long one
is cut short: copies of it would cost more than the search.

    step(5)                      b"\x05"
    step(300)                    b"\xf1\x01\x2c"
    steps(b"\x05\xf1\x01\x2c")   (5, 300)
"""

from __future__ import annotations

_SMALL = 0xF0
LONGEST = 4096
ELIDED = b"\xff"
"""Ends a path whose further steps were left out; `steps` reads it as -1."""
_CODES = [bytes([index]) for index in range(_SMALL)]


def step(index: int) -> bytes:
    if index < _SMALL:
        return _CODES[index]
    size = (index.bit_length() + 7) // 8
    return bytes([_SMALL + size - 1]) + index.to_bytes(size, "big")


def steps(path: bytes) -> tuple[int, ...]:
    """Reads a path back as child indices; the last one is -1 where it is `ELIDED`."""
    indices: list[int] = []
    at = 0
    while at < len(path):
        first = path[at]
        at += 1
        if first == ELIDED[0]:
            return (*indices, -1)
        if first < _SMALL:
            indices.append(first)
        else:
            size = first - _SMALL + 1
            indices.append(int.from_bytes(path[at : at + size], "big"))
            at += size
    return tuple(indices)


def shared_prefix(left: bytes, right: bytes) -> int:
    """Counts the leading bytes that both have: 2 for `b"abc"` and `b"abd"`."""
    # A parent's path against its child's is the usual case: one call in C
    if right.startswith(left):
        return len(left)
    # Bisection, each step one comparison in C, in place of a loop over bytes in Python
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[:middle] == right[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
