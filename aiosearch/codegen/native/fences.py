"""Memory that ends where a page begins that nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any, TypeAlias

import numpy as np

from ... import largepages
from .errors import NativeError

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


class Fenced:
    """Bytes between two pages that nobody may touch."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._inside = -(-size // _PAGE) * _PAGE
        try:
            memory = largepages.memory(self._inside + 2 * _PAGE)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"no memory for {size} bytes to try a kernel out with") from error
        self._all = np.frombuffer(memory, np.uint8)
        self._start = -1
        self._forbid(0)
        self._forbid(_PAGE + self._inside)

    @property
    def view(self) -> Bytes:
        return self._all[self._start : self._start + self._size]

    @property
    def address(self) -> int:
        return self._all.ctypes.data + self._start

    def move(self, at_end: bool) -> bool:
        """Lays the bytes against one of the pages; says whether they were not there before."""
        start = _PAGE + (self._inside - self._size if at_end else 0)
        moved, self._start = start != self._start, start
        if moved:
            self._allow(_PAGE, self._inside, mmap.PROT_READ | mmap.PROT_WRITE)
        return moved

    def fill(self, tile: Bytes) -> None:
        view = self.view
        for start in range(0, self._size, len(tile)):
            part = view[start : start + len(tile)]
            part[:] = tile[: len(part)]

    def protect(self) -> None:
        """Has the bytes only be read from now on."""
        self._allow(_PAGE, self._inside, mmap.PROT_READ)

    def _forbid(self, start: int) -> None:
        self._allow(start, _PAGE, _PROT_NONE)

    def _allow(self, start: int, size: int, rights: int) -> None:
        where = ctypes.c_void_p(self._all.ctypes.data + start)
        if size and _libc.mprotect(where, ctypes.c_size_t(size), rights):
            code = ctypes.get_errno()
            raise NativeError(f"pages cannot be protected: {os.strerror(code)}")
