"""A trial run that a kernel survives only if it stays within its arrays.

Each array lies against a page that nobody may touch: behind it in a first run, before it in a
second one. Whoever runs this must be ready to die of it.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
from collections.abc import Iterator, Sequence

import numpy as np

from ...tensor.types import DType
from ..ir import Buffer
from .errors import NativeError
from .fences import Bytes, Fenced
from .handler import rounded
from .loading import Library
from .native import Native

_TILE = 1 << 16
"""How many numbers are drawn; they repeat in larger arrays."""
_RANGES = 16
"""The parts, last one first, that the blocks of the second run come in."""
_POISONS = (0xFF, 0x00)
"""What memory holds before each run; the first is not a number, in every float type."""
_Phase = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


def try_out(native: Native, library: Library) -> None:
    """Runs a program twice on drawn inputs, and says so to the log before and after.

    Raises NativeError where the outputs differ. Whatever touches memory outside of the arrays, or
    writes to an input, ends the process.
    """
    _log(f"the kernel {native.name} was at its first run, with forbidden pages around its arrays")
    first, second = _Stage(native).runs(library)
    for buffer, one, other in zip(native.outputs, first, second, strict=True):
        if not np.array_equal(one, other):
            raise NativeError(
                f"the kernel {native.name} gave two different {buffer} for the same inputs: it does"
                " not write to every element, or reads what it has not written"
            )
    _log(f"the kernel {native.name} stayed within its arrays")


class _Stage:
    """The arrays of a program."""

    def __init__(self, native: Native) -> None:
        self._native = native
        self._inputs = [Fenced(_bytes(buffer)) for buffer in native.inputs]
        self._outputs = [Fenced(_bytes(buffer)) for buffer in native.outputs]
        self._temporaries = [Fenced(rounded(size)) for size in native.temporaries]
        scratch = max((phase.scratch_bytes for phase in native.phases), default=0)
        self._scratch = Fenced(rounded(scratch))

    def runs(self, library: Library) -> Iterator[list[Bytes]]:
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
                array.fill(_drawn(buffer.dtype))
                array.protect()
        for array in (*self._outputs, *self._temporaries, self._scratch):
            array.move(at_end)
            array.view[:] = poison


def _ranges(blocks: int, parts: int) -> Sequence[tuple[int, int]]:
    """Cuts blocks into some ranges, the last one first."""
    step = max(1, -(-blocks // parts))
    return [(begin, min(begin + step, blocks)) for begin in range(0, blocks, step)][::-1]


def _bytes(buffer: Buffer) -> int:
    return math.prod(buffer.shape) * len(_drawn(buffer.dtype)) // _TILE


@functools.cache
def _drawn(dtype: DType) -> Bytes:
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
