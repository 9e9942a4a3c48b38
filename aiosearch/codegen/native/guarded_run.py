"""A trial run of a kernel whose arrays end at guard pages.

The problem: machine code from a printer may do anything, and a write a few bytes behind an array
often goes unnoticed until much later. So each array is placed against a page that may not be
accessed: behind it in the first run, in front of it in the second. An access out of bounds raises
SIGSEGV at that very instruction. Whoever calls this must be ready to die of it; `guarded_process`
is.

Example: an input of 10,000 bytes with pages of 4,096 takes 3 pages between 2 guard pages. In the
first run it starts 2,288 bytes into the first of them and ends at the guard page; in the second it
starts right behind the other guard page.

What else is found: writes to inputs, which are read-only by then; elements that are not written, as
memory holds 0xFF (a NaN in every float type) before the first run and 0x00 before the second, and
both have to give the same outputs; blocks that depend on their order, as the second run takes them
in 16 ranges, the last one first.

What is not found: accesses within a page of slack, of which an array has up to 4,095 bytes on the
side that is not guarded; the other run guards that side. Races between threads, as both runs use
one thread.
"""

from __future__ import annotations

import ctypes
import functools
import math
import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from ... import memory as largepages
from ...tensor.types import DType
from ..errors import NativeError
from ..ir import Buffer
from .compiler import LoadedLibrary
from .handler import round_up_to_line
from .kernel_program import KernelProgram

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
"""An array of bytes."""

_PAGE = mmap.PAGESIZE
"""Bytes of a page, the smallest unit of protection."""
_PROT_NONE = 0
"""`mprotect`'s constant for no access at all."""
_libc = ctypes.CDLL(None, use_errno=True)


class GuardedBytes:
    """Bytes between two pages that may not be accessed."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._inside = -(-size // _PAGE) * _PAGE
        try:
            memory = largepages.huge_page_mapping(self._inside + 2 * _PAGE)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"no memory for {size} bytes to try a kernel out with") from error
        self._all = np.frombuffer(memory, np.uint8)
        self._start = -1
        # The first page and the last one stay forbidden; what is between is moved.
        self._forbid(0)
        self._forbid(_PAGE + self._inside)

    @property
    def view(self) -> Bytes:
        """The bytes as an array."""
        return self._all[self._start : self._start + self._size]

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return self._all.ctypes.data + self._start

    def move(self, at_end: bool) -> bool:
        """Places the bytes against the page behind them if `at_end`, else in front; says whether
        they have moved."""
        start = _PAGE + (self._inside - self._size if at_end else 0)
        moved, self._start = start != self._start, start
        # An input is read-only after the first run: it is writable again for its new place.
        if moved:
            self._allow(_PAGE, self._inside, mmap.PROT_READ | mmap.PROT_WRITE)
        return moved

    def fill(self, tile: Bytes) -> None:
        """Fills the bytes with repetitions of `tile`."""
        view = self.view
        for start in range(0, self._size, len(tile)):
            part = view[start : start + len(tile)]
            part[:] = tile[: len(part)]

    def protect(self) -> None:
        """Makes the bytes read-only."""
        self._allow(_PAGE, self._inside, mmap.PROT_READ)

    def _forbid(self, start: int) -> None:
        """Forbids all access to a page."""
        self._allow(start, _PAGE, _PROT_NONE)

    def _allow(self, start: int, size: int, rights: int) -> None:
        """Sets the access rights of pages. Raises `NativeError` where the system refuses."""
        where = ctypes.c_void_p(self._all.ctypes.data + start)
        if size and _libc.mprotect(where, ctypes.c_size_t(size), rights):
            code = ctypes.get_errno()
            raise NativeError(f"pages cannot be protected: {os.strerror(code)}")


_TILE = 1 << 16
"""Random numbers that are drawn; larger arrays repeat them."""
_RANGES = 16
"""Ranges of blocks in the second run of `run_guarded`, which takes the last one first."""
_POISONS = (0xFF, 0x00)
"""What memory holds before each run of `run_guarded`; 0xFF is NaN in every float type."""
_Phase = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def run_guarded(native: KernelProgram, library: LoadedLibrary) -> None:
    """Runs a program twice on drawn inputs, and logs before and after.

    Raises `NativeError` where the outputs differ. An access out of bounds, or a write to an input,
    ends the process.
    """
    _log(f"the kernel {native.name} was at its first run, with forbidden pages around its arrays")
    first, second = _GuardedArrays(native).runs(library)
    for buffer, ahead_of_page, behind_page in zip(native.outputs, first, second, strict=True):
        if not np.array_equal(ahead_of_page, behind_page):
            raise NativeError(
                f"the kernel {native.name} gave two different {buffer} for the same inputs: it does"
                " not write to every element, or reads what it has not written"
            )
    _log(f"the kernel {native.name} stayed within its arrays")


class _GuardedArrays:
    """The guarded arrays of a program."""

    def __init__(self, native: KernelProgram) -> None:
        self._native = native
        self._inputs = [GuardedBytes(_bytes(buffer)) for buffer in native.inputs]
        self._outputs = [GuardedBytes(_bytes(buffer)) for buffer in native.outputs]
        self._temporaries = [GuardedBytes(round_up_to_line(size)) for size in native.temporaries]
        scratch = max((phase.scratch_bytes for phase in native.phases), default=0)
        self._scratch = GuardedBytes(round_up_to_line(scratch))

    def runs(self, library: LoadedLibrary) -> Iterator[list[Bytes]]:
        """Yields the outputs with guard pages behind the arrays, then with guard pages in front."""
        for place, poison in enumerate(_POISONS):
            self._prepare(place == 0, poison)
            arrays = [*self._inputs, *self._outputs, *self._temporaries]
            pointers = (ctypes.c_void_p * len(arrays))(*(array.address for array in arrays))
            for address, phase in zip(library.phases, self._native.phases, strict=True):
                # One range in the first run, many in the second: a block that relies on the one
                # before gives other outputs.
                for begin, end in _ranges(phase.blocks, place * (_RANGES - 1) + 1):
                    _Phase(address)(pointers, self._scratch.address, begin, end)
            yield [output.view.copy() for output in self._outputs]

    def _prepare(self, at_end: bool, poison: int) -> None:
        """Moves, fills and protects all arrays."""
        for buffer, array in zip(self._native.inputs, self._inputs, strict=True):
            # An array that fills its pages exactly does not move, and keeps its content.
            if array.move(at_end):
                array.fill(_random_bytes(buffer.dtype))
                array.protect()
        for array in (*self._outputs, *self._temporaries, self._scratch):
            array.move(at_end)
            array.view[:] = poison


def _ranges(blocks: int, parts: int) -> Sequence[tuple[int, int]]:
    """The `blocks` in ranges, the last one first."""
    step = max(1, -(-blocks // parts))
    return [(begin, min(begin + step, blocks)) for begin in range(0, blocks, step)][::-1]


def _bytes(buffer: Buffer) -> int:
    """Bytes of an array."""
    return math.prod(buffer.shape) * len(_random_bytes(buffer.dtype)) // _TILE


@functools.cache
def _random_bytes(dtype: DType) -> Bytes:
    """The bytes of random numbers of a type: normally distributed floats, all integers, both truth
    values."""
    random = np.random.default_rng(0)
    match dtype:
        case DType.BOOL:
            return random.integers(0, 2, _TILE, np.uint8)
        case DType.I8 | DType.U8:
            return random.integers(0, 256, _TILE, np.uint8)
        case DType.I32:
            return random.integers(-(2**31), 2**31, _TILE, np.int64).astype(np.int32).view(np.uint8)
        case DType.BF16:
            wide = random.standard_normal(_TILE, np.float32).view(np.uint32)
            return (wide >> 16).astype(np.uint16).view(np.uint8)
    kinds = {DType.F16: np.float16, DType.F32: np.float32, DType.F64: np.float64}
    return random.standard_normal(_TILE).astype(kinds[dtype]).view(np.uint8)


def _log(line: str) -> None:
    """Writes a `line` to standard error, unbuffered: the parent quotes the last line of a process
    that died."""
    os.write(2, f"{line}\n".encode())
