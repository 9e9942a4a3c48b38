"""A trial run of a kernel whose arrays end at guard pages.

A trial run that a kernel survives only if it stays within its arrays.

Each array lies against a page that nobody may touch: behind it in a first run, before it in a
second one. Whoever runs this must be ready to die of it.
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
from ..ir import Buffer
from .compiler import LoadedLibrary
from .errors import NativeError
from .handler import round_up_to_line
from .kernel_program import KernelProgram

Bytes: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


class GuardedBytes:
    """Bytes between two pages that nobody may touch."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._inside = -(-size // _PAGE) * _PAGE
        try:
            memory = largepages.huge_page_mapping(self._inside + 2 * _PAGE)
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


_TILE = 1 << 16
"""How many numbers are drawn; they repeat in larger arrays."""
_RANGES = 16
"""The parts, last one first, that the blocks of the second run come in."""
_POISONS = (0xFF, 0x00)
"""What memory holds before each run; the first is not a number, in every float type."""
_Phase = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def run_guarded(native: KernelProgram, library: LoadedLibrary) -> None:
    """Runs a program twice on drawn inputs, and says so to the log before and after.

    Raises NativeError where the outputs differ. Whatever touches memory outside of the arrays, or
    writes to an input, ends the process.
    """
    _log(f"the kernel {native.name} was at its first run, with forbidden pages around its arrays")
    first, second = _GuardedArrays(native).runs(library)
    for buffer, one, other in zip(native.outputs, first, second, strict=True):
        if not np.array_equal(one, other):
            raise NativeError(
                f"the kernel {native.name} gave two different {buffer} for the same inputs: it does"
                " not write to every element, or reads what it has not written"
            )
    _log(f"the kernel {native.name} stayed within its arrays")


class _GuardedArrays:
    """The arrays of a program."""

    def __init__(self, native: KernelProgram) -> None:
        self._native = native
        self._inputs = [GuardedBytes(_bytes(buffer)) for buffer in native.inputs]
        self._outputs = [GuardedBytes(_bytes(buffer)) for buffer in native.outputs]
        self._temporaries = [GuardedBytes(round_up_to_line(size)) for size in native.temporaries]
        scratch = max((phase.scratch_bytes for phase in native.phases), default=0)
        self._scratch = GuardedBytes(round_up_to_line(scratch))

    def runs(self, library: LoadedLibrary) -> Iterator[list[Bytes]]:
        """Gives the outputs with those pages behind the arrays, then with them before."""
        for place, poison in enumerate(_POISONS):
            self._prepare(place == 0, poison)
            arrays = [*self._inputs, *self._outputs, *self._temporaries]
            pointers = (ctypes.c_void_p * len(arrays))(*(each.address for each in arrays))
            for address, phase in zip(library.phases, self._native.phases, strict=True):
                for begin, end in _ranges(phase.blocks, place * (_RANGES - 1) + 1):
                    _Phase(address)(pointers, self._scratch.address, begin, end)
            yield [each.view.copy() for each in self._outputs]

    def _prepare(self, at_end: bool, poison: int) -> None:
        for buffer, array in zip(self._native.inputs, self._inputs, strict=True):
            if array.move(at_end):
                array.fill(_random_bytes(buffer.dtype))
                array.protect()
        for array in (*self._outputs, *self._temporaries, self._scratch):
            array.move(at_end)
            array.view[:] = poison


def _ranges(blocks: int, parts: int) -> Sequence[tuple[int, int]]:
    """Cuts blocks into some ranges, the last one first."""
    step = max(1, -(-blocks // parts))
    return [(begin, min(begin + step, blocks)) for begin in range(0, blocks, step)][::-1]


def _bytes(buffer: Buffer) -> int:
    return math.prod(buffer.shape) * len(_random_bytes(buffer.dtype)) // _TILE


@functools.cache
def _random_bytes(dtype: DType) -> Bytes:
    """Gives the bytes of numbers: floats near one, every whole number, truth values."""
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
    """What a process said last is quoted by whoever finds it dead."""
    os.write(2, f"{line}\n".encode())
