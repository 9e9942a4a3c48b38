"""Memory that processes share, and locks that end with whoever holds them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aiosearch.memory import lock, reopen, try_lock, unlock, unnamed_file

HOLDER = """
import signal, sys
from aiosearch.memory import lock, reopen
fd = reopen(sys.argv[1])
lock(fd, int(sys.argv[2]), int(sys.argv[3]))
print("locked", flush=True)
signal.pause()
"""


@pytest.fixture
def shared() -> Iterator[tuple[int, str]]:
    fd, path = unnamed_file("aiosearch-test")
    yield fd, path
    os.close(fd)


@pytest.fixture
def other(shared: tuple[int, str]) -> Iterator[int]:
    """The same file, opened once more: locks are between those who opened it."""
    fd = reopen(shared[1])
    yield fd
    os.close(fd)


@contextmanager
def holding(path: str, first: int, count: int) -> Iterator[subprocess.Popen[str]]:
    """Another process, with a lock."""
    words = [sys.executable, "-c", HOLDER, path, str(first), str(count)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_what_one_writes_the_other_reads(shared: tuple[int, str], other: int) -> None:
    os.pwrite(shared[0], b"hello", 100)
    assert os.pread(other, 5, 100) == b"hello"


def test_a_number_is_locked_once(shared: tuple[int, str], other: int) -> None:
    fd, _ = shared
    lock(fd, 5, 1)
    assert not try_lock(other, 5, 1)
    assert try_lock(other, 4, 1)
    assert try_lock(other, 6, 10)
    unlock(fd, 5, 1)
    assert try_lock(other, 5, 1)


@pytest.mark.parametrize(("first", "count"), [(9, 2), (10, 1), (14, 9), (0, 100), (0, 0), (12, 0)])
def test_spans_that_overlap_exclude_each_other(
    shared: tuple[int, str], other: int, first: int, count: int
) -> None:
    lock(shared[0], 10, 5)
    assert not try_lock(other, first, count)


def test_whoever_opened_the_file_once_does_not_exclude_himself(shared: tuple[int, str]) -> None:
    lock(shared[0], 1, 1)
    assert try_lock(shared[0], 1, 1)


def test_a_lock_ends_with_its_holder(shared: tuple[int, str]) -> None:
    fd, path = shared
    with holding(path, 3, 1) as process:
        assert not try_lock(fd, 3, 1)
        process.kill()
        process.wait()
        assert try_lock(fd, 3, 1)


def test_a_frozen_holder_keeps_its_lock(shared: tuple[int, str]) -> None:
    fd, path = shared
    with holding(path, 3, 1) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        assert not try_lock(fd, 3, 1)


def test_who_waits_for_a_lock_gets_it_when_its_holder_dies(shared: tuple[int, str]) -> None:
    fd, path = shared
    with holding(path, 3, 1) as process:
        process.kill()
        lock(fd, 3, 1)


def test_the_file_ends_with_the_last_who_has_it_open() -> None:
    fd, path = unnamed_file("aiosearch-test")
    other = reopen(path)
    os.close(fd)
    assert os.pwrite(other, b"still there", 0) == 11
    os.close(other)
    with pytest.raises(FileNotFoundError):
        reopen(path)


FAULTS = """
import resource
import sys
import numpy as np
from aiosearch.memory import keep_freed_memory
if "keep" in sys.argv and not keep_freed_memory():
    print(-1)
    raise SystemExit
np.ones(1 << 23).sum()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
    np.ones(1 << 23).sum()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(*flags: str) -> int:
    """Pages that the system zeroed for arrays that are made and freed, one after the other."""
    command = [sys.executable, "-c", FAULTS, *flags]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def test_memory_that_is_kept_is_zeroed_once() -> None:
    """The next array of the size takes the pages of the one before."""
    kept = _faults("keep")
    if kept < 0:
        pytest.skip("the allocator has no such setting")
    assert kept < 64
    assert kept < max(64, _faults())
