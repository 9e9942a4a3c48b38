"""Runs the blocks of a grid on all cores: chunks of block numbers, as threads come for them.

Waking a thread takes as long as many a launch, and launches come in rows. So a thread that helped
looks for another launch for a while, `_PATIENCE`, before it is given back to its pool; all that is
in machine code, as a thread that has to get Python's lock first comes too late. A launch never
waits for a helper, only for blocks that one has begun. `launch_team.ll` has the details.

A trial runs them on one thread of another process, with each array between pages that may not be
touched: `python -m aiosearch.cuda.compiled.threads < TRIAL`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...processes.launch import command, environment
from ..errors import LaunchError

_CHUNKS = 8
"""Per thread, so that one that is slow has little left when the others are done."""
_ALIGN = 64
_PATIENCE = 100_000
"""Nanoseconds: about what lies between two launches from Python, or what it takes to be woken."""
_ALONE = 2e-5
"""Seconds of work that are not worth another thread."""
_TEAM_WORDS, _LAUNCH_WORD, _SCRATCH_PLACE = 32, 24, 4
"""Words of a team, the first of a launch there, and which of those has the size of scratch."""
_LAUNCH = struct.Struct("=8q")
_SIZE = struct.Struct("=q")
_Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class _ScratchMemory(threading.local):
    """That of each thread."""

    memory: np.ndarray[Any, np.dtype[np.uint8]] | None = None
    size = -1
    address = 0


_local = _ScratchMemory()


def default_threads() -> int:
    """As many as this process may run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _LaunchTeam:
    """The calling thread and its helpers, for one launch at a time."""

    def __init__(self, helpers: int) -> None:
        self._helpers = helpers
        self._pool = ThreadPoolExecutor(helpers, thread_name_prefix="aiosearch-cuda")
        self._words = np.zeros(_TEAM_WORDS + _ALIGN // 8, np.int64)
        """In memory that its helpers read as long as the pool has any."""
        skipped = -self._words.ctypes.data % _ALIGN
        self._address = self._words.ctypes.data + skipped
        self._bytes = self._words.data.cast("B")[skipped:]
        self._code = _team_code()

    def run(self, launch: tuple[int, ...]) -> None:
        """Runs what `_LAUNCH` packs: function, arguments, blocks, chunk, scratch and so on."""
        _LAUNCH.pack_into(self._bytes, 8 * _LAUNCH_WORD, *launch)
        for _ in range(self._code.missing(self._address, self._helpers)):
            self._pool.submit(self._help)
        size = launch[_SCRATCH_PLACE]
        self._code.lead(self._address, _scratch(size), size)

    def _help(self) -> None:
        size = 0
        while self._code.help(self._address, _scratch(size), size):
            (size,) = _SIZE.unpack_from(self._bytes, 8 * (_LAUNCH_WORD + _SCRATCH_PLACE))


@dataclass(frozen=True, slots=True)
class _LaunchTeamCode:
    missing: Callable[[int, int], int]
    help: Callable[[int, int, int], int]
    lead: Callable[[int, int, int], None]
    memory: Any
    """It holds the code."""


@functools.cache
def _team_code() -> _LaunchTeamCode:
    from . import backend

    text = Path(__file__).with_name("launch_team.ll").read_text(encoding="utf-8")
    names = ("missing", "help", "lead")
    addresses, memory = backend.loaded_together(text + backend.spinning(_PATIENCE), names)
    word = ctypes.c_int64
    types: tuple[Any, ...] = (
        ctypes.CFUNCTYPE(word, ctypes.c_void_p, word),
        ctypes.CFUNCTYPE(word, ctypes.c_void_p, ctypes.c_void_p, word),
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, word),
    )
    missing, helping, lead = (type(address) for type, address in zip(types, addresses, strict=True))
    return _LaunchTeamCode(missing, helping, lead, memory)


_teams: dict[tuple[int, int], list[_LaunchTeam]] = {}
"""Those that do nothing, by the process, since a fork takes no threads along, and their helpers."""


def _run(launch: tuple[int, ...], helpers: int) -> None:
    """Runs a launch by a team that nobody else uses meanwhile."""
    idle = _teams.setdefault((os.getpid(), helpers), [])
    try:
        team = idle.pop()
    except IndexError:
        team = _LaunchTeam(helpers)
    try:
        team.run(launch)
    finally:
        idle.append(team)


class BlockPace:
    """How many seconds a block of a kernel takes one thread, as far as is known."""

    def __init__(self) -> None:
        self.seconds: float | None = None


class GridBlocks:
    """The blocks of a grid, run by as many threads as are worth it."""

    def __init__(self, address: int, blocks: int, pace: BlockPace) -> None:
        self._address, self._blocks, self._pace = address, blocks, pace
        self._kernel = _Kernel(address)

    def run(self, arguments: int, scratch_bytes: int) -> None:
        """Runs all blocks and is back when they are done. Other Python threads go on meanwhile."""
        pace, begin, kernel = self._pace, 0, self._kernel
        if pace.seconds is None:
            # The first block of all tells whether others are worth another thread.
            started = time.perf_counter()
            kernel(arguments, _scratch(scratch_bytes), 0, 1)
            pace.seconds, begin = time.perf_counter() - started, 1
        blocks = self._blocks - begin
        if not blocks:
            return
        threads = min(default_threads(), blocks)
        started = time.perf_counter()
        if threads == 1 or pace.seconds * blocks < _ALONE:
            kernel(arguments, _scratch(scratch_bytes), begin, self._blocks)
            pace.seconds = (time.perf_counter() - started) / blocks
            return
        chunk = max(blocks // (threads * _CHUNKS), 1)
        _run((self._address, arguments, blocks, chunk, scratch_bytes, 0, begin, 0), threads - 1)
        # With several threads, waiting counts as well, so it can only have been less.
        taken = (time.perf_counter() - started) * threads / blocks
        pace.seconds = min(pace.seconds, taken)


def run_region(
    address: int, words: int, scratch_bytes: int, state_words: int, threads: int | None = None
) -> None:
    """Has threads run the region at an `address` together, until all its launches are done."""
    several = threads or default_threads()
    state = np.zeros(state_words + _ALIGN // 8, np.int64)
    ticket = -(-state.ctypes.data // _ALIGN) * _ALIGN
    if several <= 1:
        _Kernel(address)(words, _scratch(scratch_bytes), ticket, several)
        return
    # Each thread runs all of it. Who comes when all is done only counts the launches.
    _run((address, words, several, 1, scratch_bytes, 1, ticket, several), several - 1)


def _scratch(size: int) -> int:
    """The address of memory of this thread, which it keeps for the next launch."""
    if size > _local.size:
        memory = np.zeros(size + _ALIGN, np.uint8)
        _local.memory, _local.size = memory, size
        _local.address = -(-memory.ctypes.data // _ALIGN) * _ALIGN
    return _local.address


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
