"""Forking a process whose parent is the caller's parent (`CLONE_PARENT`), on Linux.

Whoever has a process started by another one hears of its end from that one only. A sibling is
better off: its parent waits for it and kills it like what it started itself, and the kernel lets it
die with that parent. Python and the C library have no name for such a fork, but the kernel has one:
CLONE_PARENT.

What `fork` of the C library does beside is for processes with several threads, and `alone` says
whether this is one. Only the number of the thread is to be put right, where glibc keeps it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
import time

_CLONE_PARENT = 0x00008000
_CLONE_CHILD_CLEARTID = 0x00200000
_CLONE_CHILD_SETTID = 0x01000000
_CALLS = {"x86_64": (56, 273, 274), "aarch64": (220, 99, 100)}
"""The system calls, by machine: clone, and those that set and get the head of a thread's list of
robust mutexes. Containers mostly refuse clone3, whose flags their filters cannot see."""
_HEAD_BYTES = 24
_FROM_HEAD = -16
"""Where glibc keeps a thread's number, seen from that head."""
_SETTLING_SECONDS = 1.0


class Cloner:
    """Made once, by the only thread; raises OSError where the machine is another one."""

    def __init__(self) -> None:
        self._libc = ctypes.PyDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long
        machine = os.uname().machine
        if machine not in _CALLS:
            raise OSError(errno.ENOSYS, f"nobody has tried this on {machine}")
        self._clone, self._set_list, get_list = _CALLS[machine]
        self._head, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._call(get_list, 0, ctypes.byref(self._head), ctypes.byref(size))
        own = (self._head.value or -_FROM_HEAD) + _FROM_HEAD
        if not own or ctypes.c_int.from_address(own).value != threading.get_native_id():
            raise OSError(errno.ENOSYS, "the C library is not as glibc is")
        flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
        number, nothing = ctypes.c_void_p(own), ctypes.c_void_p(0)
        last = (number, nothing) if machine == "x86_64" else (nothing, number)
        self._arguments = ctypes.c_ulong(flags), nothing, nothing, *last

    def fork(self) -> int:
        """Gives 0 in the new process, and its id in this one; raises OSError as `os.fork` does."""
        python = ctypes.pythonapi
        python.PyOS_BeforeFork()
        try:
            pid = self._call(self._clone, *self._arguments)
        except OSError:
            python.PyOS_AfterFork_Parent()
            raise
        if pid:
            python.PyOS_AfterFork_Parent()
        else:
            python.PyOS_AfterFork_Child()
            self._call(self._set_list, self._head, ctypes.c_size_t(_HEAD_BYTES))
        return pid

    def quieten(self) -> None:
        """Has libraries end their threads: OpenBLAS does before a fork, until it needs them again.

        It hears of forks of the C library only, so there is one, of a process that ends at once.
        """
        pid = self._libc.fork()
        if pid == 0:
            self._libc._exit(0)
        if pid > 0:
            os.waitpid(pid, 0)

    def _call(self, number: int, *arguments: object) -> int:
        result = int(self._libc.syscall(ctypes.c_long(number), *arguments))
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result


def has_one_thread() -> bool:
    """Whether this process has one thread. One that has just been joined may take a moment."""
    end = time.monotonic() + _SETTLING_SECONDS
    while len(os.listdir("/proc/self/task")) > 1:
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True
