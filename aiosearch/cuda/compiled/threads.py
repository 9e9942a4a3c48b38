"""Runs the blocks of a grid on all cores: chunks of block numbers, as threads come for them.

A trial runs them on one thread of another process, with each array between pages that may not be
touched: `python -m aiosearch.cuda.compiled.threads < TRIAL`.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ...processes.launch import command, environment
from ..errors import LaunchError

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


def run_region(
    address: int, words: int, scratch_bytes: int, state_words: int, threads: int | None = None
) -> None:
    """Has threads run the region at an `address` together, until all its launches are done."""
    code = _Kernel(address)
    several = threads or default_threads()
    state = np.zeros(state_words + _ALIGN // 8, np.int64)
    ticket = -(-state.ctypes.data // _ALIGN) * _ALIGN

    def work() -> None:
        code(words, _scratch(scratch_bytes), ticket, several)

    helpers = [_pool(several - 1).submit(work) for _ in range(several - 1)] if several > 1 else []
    try:
        work()
    finally:
        for helper in helpers:
            # Without it all was done, if it has not begun; otherwise it only counts to the end.
            if not helper.cancel():
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


@dataclass(frozen=True, slots=True)
class LaunchTrial:
    """A launch that is tried out: what is compiled, and copies of what it is passed."""

    text: str
    name: str
    scratch_bytes: int
    words: tuple[int, ...]
    """The arguments; those that are addresses are put in."""
    memory: dict[int, bytes]
    """What lies at the address in a place of the words."""
    blocks: int


def try_out(trial: LaunchTrial) -> None:
    """Raises LaunchError where a kernel leaves its arrays, or does not end well otherwise."""
    ended = subprocess.run(
        command(__name__),
        input=pickle.dumps(trial),
        capture_output=True,
        check=False,
        env=environment(),
    )
    if ended.returncode < 0:
        name = signal.Signals(-ended.returncode).name
        raise LaunchError(
            f"{trial.name} reads or writes outside of its arrays: it died of {name};"
            " `check` and `check_compiled` name the line"
        )
    if ended.returncode:
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        raise LaunchError(f"{trial.name} cannot be tried out: {lines[-1] if lines else ''}")


def run_guarded(trial: LaunchTrial) -> None:
    """Runs a launch twice: with forbidden pages right behind its arrays, and right in front."""
    from . import backend

    address, code = backend.loaded(trial.text, trial.name)
    kernel = _Kernel(address)
    held = {place: backend.guarded(len(content)) for place, content in trial.memory.items()}
    scratch = backend.guarded(-(-max(trial.scratch_bytes, 1) // _ALIGN) * _ALIGN)
    for at_end in (True, False):
        scratch.move(at_end)
        words = np.array(trial.words, np.int64)
        for place, guarded in held.items():
            guarded.move(at_end)
            guarded.view[:] = np.frombuffer(trial.memory[place], np.uint8)
            words[place] = guarded.address
        kernel(words.ctypes.data, scratch.address, 0, trial.blocks)
    del code  # its memory was needed until here


if __name__ == "__main__":
    run_guarded(pickle.loads(sys.stdin.buffer.read()))
