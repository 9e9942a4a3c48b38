"""Memory that processes of one machine share, record locks on it, mappings in huge pages,
and what becomes of memory that was freed.

A lock is the kernel's: it is released when its holder dies, at whatever instruction. It excludes
open file descriptions from each other, so each process opens the file for itself with `reopen`.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

_FLOCK = struct.Struct("hhqqi4x")

ORDERED = os.uname().machine == "x86_64"
"""Whether loads and stores keep their order, so that some things can be read without a lock."""


def unnamed_file(name: str) -> tuple[int, str]:
    """Makes an empty file in memory; gives its descriptor, and where others of the same user can
    `reopen` it while it is open here."""
    if sys.platform == "linux":
        fd = os.memfd_create(name)
        path = f"/proc/{os.getpid()}/fd/{fd}"
    else:
        fd, path = tempfile.mkstemp(prefix=f"{name}-")
    # With the inode: the descriptor's number may be another file by the time that it is opened
    return fd, f"{path}#{os.fstat(fd).st_ino}"


def reopen(where: str) -> int:
    """Opens a file of `unnamed_file` once more; raises `FileNotFoundError` where it is gone,
    although another file may be open under its descriptor by now."""
    path, _, inode = where.partition("#")
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    if inode != str(os.fstat(fd).st_ino):
        os.close(fd)
        raise FileNotFoundError(f"what was at {path} is gone")
    return fd


def unlink_if_named(where: str) -> None:
    """Removes the file where it has a name, as it does on systems without files in memory."""
    path = where.partition("#")[0]
    if not path.startswith("/proc/"):
        Path(path).unlink(missing_ok=True)


# What is locked are numbers, which need not lie inside the file.
if sys.platform == "linux":

    def lock(fd: int, first: int, count: int) -> None:
        """Locks `count` numbers from `first` on, or all of them (0); waits while somebody
        has one."""
        fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, _FLOCK.pack(fcntl.F_WRLCK, 0, first, count, 0))

    def try_lock(fd: int, first: int, count: int) -> bool:
        """Locks as `lock` does if it can without waiting; says whether it did."""
        try:
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, 0, first, count, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(fd: int, first: int, count: int) -> None:
        """Unlocks these numbers."""
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, 0, first, count, 0))

else:

    def lock(fd: int, first: int, count: int) -> None:
        """Locks `count` numbers from `first` on, or all of them (0); waits while somebody
        has one."""
        fcntl.lockf(fd, fcntl.LOCK_EX, count, first)

    def try_lock(fd: int, first: int, count: int) -> bool:
        """Locks as `lock` does if it can without waiting; says whether it did."""
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def unlock(fd: int, first: int, count: int) -> None:
        """Unlocks these numbers."""
        fcntl.lockf(fd, fcntl.LOCK_UN, count, first)


HUGE_PAGE_BYTES = 2 << 20
"""Bytes of a huge page on the usual processors. Newer kernels let large memory begin at a multiple
of it; where they do not, a few small pages come before it."""


def huge_page_mapping(size: int) -> mmap.mmap:
    """Memory of this process alone, in huge pages where there are some; raises `OSError`
    without room."""
    mapping = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # not every kernel has them
            mapping.madvise(mmap.MADV_HUGEPAGE)
    return mapping


def keep_freed_memory() -> bool:
    """From here on this process keeps the memory that it frees, for the next array of its size.

    By default glibc gives large arrays back at once, and the system zeroes their pages anew for the
    next one: for a process that makes one array of 64 MB after the other, half of its time. Whether
    the allocator has such a setting.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    # No mapping of its own for any array (M_MMAP_MAX), no page of the heap given back
    # (M_TRIM_THRESHOLD), and one heap for all threads (M_ARENA_MAX), as others are of small pieces
    # that are given back: the numbers are those of malloc.h.
    return all(bool(mallopt(*setting)) for setting in ((-4, 0), (-1, -1), (-8, 1)))
