"""How it is said that memory has run out."""

from __future__ import annotations

_WORDS = ("RESOURCE_EXHAUSTED", "out of memory", "Out of memory", "bad_alloc", "MemoryError")


def exhausted(words: str) -> bool:
    """Whether an error, or the last words of a process, are of that."""
    return any(word in words for word in _WORDS)
