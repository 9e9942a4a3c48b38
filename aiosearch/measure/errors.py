"""What executors raise, and how it is recognised that memory has run out."""

from __future__ import annotations

from ..errors import AiosearchError


class ExecutorError(AiosearchError):
    """Nothing can be compiled or timed here: the device is absent, or its process cannot start."""


_OUT_OF_MEMORY_TEXTS = (
    "RESOURCE_EXHAUSTED",
    "out of memory",
    "Out of memory",
    "bad_alloc",
    "MemoryError",
)


def says_out_of_memory(words: str) -> bool:
    """Whether an error, or the last words of a process, say that memory has run out."""
    return any(word in words for word in _OUT_OF_MEMORY_TEXTS)
