"""Runs the blocks of a grid on all cores: chunks of block numbers, as threads come for them."""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

_CHUNKS = 8
"""Per thread, so that one that is slow has little left when the others are done."""
_ALIGN = 64
_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_local = threading.local()


def default_threads() -> int:
    """As many as this process may run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="aiosearch-cuda")


def run(
    address: int, arguments: int, scratch_bytes: int, blocks: int, threads: int | None = None
) -> None:
    """Runs all blocks and is back when they are done. Other Python threads go on meanwhile."""
    kernel = _Kernel(address)
    several = min(threads or default_threads(), blocks)
    if several <= 1:
        kernel(arguments, _scratch(scratch_bytes), 0, blocks)
        return
    chunk = max(blocks // (several * _CHUNKS), 1)
    starts = itertools.count(
        0, chunk
    )  # taking the next number is one step under the lock of Python
    work = _work(kernel, arguments, scratch_bytes, blocks, chunk, starts)
    # The calling thread works, too: for a small grid nobody has to be woken at all.
    helpers: list[Future[None]] = [_pool(several - 1).submit(work) for _ in range(several - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            helper.result()


def _work(
    kernel: Callable[[int, int, int, int], None],
    arguments: int,
    scratch_bytes: int,
    blocks: int,
    chunk: int,
    starts: itertools.count[int],
) -> Callable[[], None]:
    def work() -> None:
        scratch = _scratch(scratch_bytes)
        while (start := next(starts)) < blocks:
            kernel(arguments, scratch, start, min(start + chunk, blocks))

    return work


def _scratch(size: int) -> int:
    """Memory of this thread, which it keeps for the next launch."""
    memory = getattr(_local, "memory", None)
    if memory is None or memory.size < size + _ALIGN:
        memory = _local.memory = np.zeros(size + _ALIGN, np.uint8)
    return -(-memory.ctypes.data // _ALIGN) * _ALIGN
