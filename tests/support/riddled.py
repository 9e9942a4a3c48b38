"""A process whose address space is full but for single pages, far above where there is room."""

from __future__ import annotations

import mmap

import numpy as np
from testkit.kernels.error_bounds import assert_right
from testkit.kernels.native_run import program

from aiosearch.codegen.lower.lowering import lower
from aiosearch.codegen.native.machine import host
from aiosearch.codegen.passes.kernel_fusion import fuse_kernels
from aiosearch.tensor import DType, apply, tensor

_GAP = 6 << 30
"""More bytes than an instruction can reach over."""


def main() -> None:
    """Runs a kernel, once before and once after no room is left for its code near constants."""
    x, y = tensor("X", DType.F64, (9, 21)), tensor("Y", DType.F64, (21, 35))
    module = fuse_kernels(lower(program(apply("tanh", x @ y))))
    assert_right(module, machines=[host()])
    held = _riddled()
    assert_right(module, machines=[host()])
    for one in held:
        one.close()


def _riddled() -> list[mmap.mmap]:
    """Takes all room that is left above a gap, then gives every second of single pages back."""
    below = _reserved(_GAP)
    held = [below]
    for size in (1 << 28, 1 << 22, 1 << 16):
        held += _above(below, size)
    return [*held, _reserved(_GAP), *_above(below, mmap.PAGESIZE)[::2]]


def _above(below: mmap.mmap, size: int) -> list[mmap.mmap]:
    """All room for so many bytes that is above some other."""
    found = [_reserved(size)]
    while _address(found[-1]) > _address(below):
        found.append(_reserved(size))
    return found[:-1]


def _reserved(size: int) -> mmap.mmap:
    """Addresses that nothing else gets, with no memory behind them."""
    return mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 0)


def _address(memory: mmap.mmap) -> int:
    return np.frombuffer(memory, np.uint8).ctypes.data


if __name__ == "__main__":
    main()
