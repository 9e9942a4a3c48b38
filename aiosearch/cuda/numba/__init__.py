"""Kernels that are Python functions, written as for `numba.cuda`.

    from aiosearch.cuda.numba import cuda

    @cuda.jit
    def double(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= 2

    double[4, 256](array)

Numba itself is not needed. Code that imports it runs unchanged inside of `patched()`.
"""

from __future__ import annotations

from .api import cuda, patched

__all__ = ["cuda", "patched"]
