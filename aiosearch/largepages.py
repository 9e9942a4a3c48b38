"""Memory in large pages, of which most systems give some only to who asks."""

from __future__ import annotations

import mmap
from contextlib import suppress

LARGE = 2 << 20
"""Bytes of one on the usual processors. Newer kernels let large memory begin where one does; where
one does not, a few small pages come before it."""


def memory(size: int) -> mmap.mmap:
    """Memory of this process alone, in large pages where there are some; OSError without room."""
    found = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # not every kernel has them
            found.madvise(mmap.MADV_HUGEPAGE)
    return found
