"""Forking a process whose parent is the caller's parent (`CLONE_PARENT`), on Linux.

Whoever has a process started by another one hears of its end from that one only. A sibling is
better off: its parent waits for it and kills it like what it started itself, and the kernel lets it
die with that parent. Python and the C library have no name for such a fork, but the kernel has one:
the flag `CLONE_PARENT` of the system call `clone`.

What it is worth, against a fork server whose children are its own and the host's grandchildren, as
benchmarks/starts.py prints it (AMD EPYC, 2 cores shared with other work, 15 starts in turns):

    start of a worker       28.4 ms as a sibling, 28.1 as a grandchild, 719 without a server
    start of a z3 process   23.7 ms as a sibling, 32.9 as a grandchild, 1335 without
    deaths whose signal the host learns    20 of 20 siblings, 0 of 20 grandchildren
    workers that outlive their server      20 of 20 siblings, 0 of 20 grandchildren

So it saves no time, and is kept for the last two lines. Without it a server would have to stay as
long as any child of its lives, in 33 to 42 MB for the engine and z3 and far more for jax, where now
it ends after 30 idle seconds; and it would have to watch its children and send every exit status to
the host, which has to tell SIGKILL (memory ran out, or somebody meant it) from a crash. That is
more code than is here, with races of its own between a death and its report. Where it does not
work, on another machine or C library, `Cloner` raises and children are started as processes of
their own.

What `fork` of the C library does beside is for processes with several threads, and `has_one_thread`
says whether this is one. Only the number of the thread is to be put right, where glibc keeps it:
the child's `pthread_self()->tid` would be the server's, and robust mutexes would be released in its
name.
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
"""The system calls, by machine: `clone`, and those that set and get the head of a thread's list of
robust mutexes. Containers mostly refuse `clone3`, whose flags their filters cannot see."""
_HEAD_BYTES = 24
_FROM_HEAD = -16
"""Bytes from that head to where glibc keeps a thread's number, in `struct pthread`."""
_SETTLING_SECONDS = 1.0


class Cloner:
    """Made once, by the only thread; raises `OSError` where the machine is another one."""

    def __init__(self) -> None:
        self._libc = ctypes.PyDLL(None, use_errno=True)
        self._libc.syscall.restype = ctypes.c_long
        machine = os.uname().machine
        if machine not in _CALLS:
            raise OSError(errno.ENOSYS, f"nobody has tried this on {machine}")
        self._clone, self._set_list, get_list = _CALLS[machine]
        self._head, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._call(get_list, 0, ctypes.byref(self._head), ctypes.byref(size))
        number_address = (self._head.value or -_FROM_HEAD) + _FROM_HEAD
        if (
            # Read before it is ever written: if our number is not there, this glibc is laid out
            # otherwise
            not number_address
            or ctypes.c_int.from_address(number_address).value != threading.get_native_id()
        ):
            raise OSError(errno.ENOSYS, "the C library is not as glibc is")
        # The kernel writes the child's own number to that place, and clears it when the thread ends
        flags = _CLONE_PARENT | _CLONE_CHILD_SETTID | _CLONE_CHILD_CLEARTID
        number, nothing = ctypes.c_void_p(number_address), ctypes.c_void_p(0)
        # The order of clone's last two arguments, tls and child_tid, differs between machines
        last = (number, nothing) if machine == "x86_64" else (nothing, number)
        self._arguments = ctypes.c_ulong(flags), nothing, nothing, *last

    def fork(self) -> int:
        """Gives 0 in the new process, and its id in this one; raises OSError as `os.fork` does."""
        python = ctypes.pythonapi
        # What os.fork does around the call: the import lock, the interpreter's own locks
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
            # The kernel forgets a process's list at a fork; glibc registers it anew, and so do we
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
