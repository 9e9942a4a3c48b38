"""What z3 said, for all workers of one machine: a hash table in the board's memory."""

from __future__ import annotations

import struct

from aiosearch.memory import ORDERED, lock, unlock

from .layout import MOST_PLACES, VERDICT_WORDS, VERDICTS

WINDOW = 16
"""A verdict lies within this many entries of the one that its digest names."""

_KNOWN = ("", "proved", "refuted")
_WORDS = struct.Struct("=QQ")


class Verdicts:
    """A table that only grows. What does not fit in it is asked of the host, as if nobody knew."""

    def __init__(self, words: memoryview, fd: int) -> None:
        self._words = words
        self._fd = fd

    def add(self, digest: bytes, status: str) -> None:
        """Notes an answer of `proved` or `refuted`; what is unknown may be known to the
        next who asks."""
        if status not in _KNOWN[1:]:
            return
        first, second, home = _place_of(digest)
        words = self._words
        lock(self._fd, MOST_PLACES + home, WINDOW)
        try:
            for at in _window(home):
                if not words[at]:
                    words[at + 1] = second
                    words[at + 2] = _KNOWN.index(status)
                    words[at] = first  # last: from now on it is there
                    return
                if words[at] == first and words[at + 1] == second:
                    return
        finally:
            unlock(self._fd, MOST_PLACES + home, WINDOW)

    def find(self, digest: bytes) -> str:
        """What z3 said, `proved` or `refuted`; empty where nobody noted it."""
        first, second, home = _place_of(digest)
        # Where stores are seen in their order, an entry with its first word has all others
        if ORDERED:
            return self._find(first, second, home)
        lock(self._fd, MOST_PLACES + home, WINDOW)
        try:
            return self._find(first, second, home)
        finally:
            unlock(self._fd, MOST_PLACES + home, WINDOW)

    def _find(self, first: int, second: int, home: int) -> str:
        words = self._words
        for at in _window(home):
            if not words[at]:
                return ""
            if words[at] == first and words[at + 1] == second:
                return _KNOWN[words[at + 2]]
        return ""


def _place_of(digest: bytes) -> tuple[int, int, int]:
    first, second = _WORDS.unpack(digest[:16])
    return first or 1, second, first % (VERDICTS - WINDOW)


def _window(home: int) -> range:
    return range(home * VERDICT_WORDS, (home + WINDOW) * VERDICT_WORDS, VERDICT_WORDS)
