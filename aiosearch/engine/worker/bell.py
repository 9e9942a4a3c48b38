"""Wakes workers that wait for what others of their machine offer, by an eventfd."""

from __future__ import annotations

import contextlib
import os


class Bell:
    """An eventfd that all workers of a machine have: a ring wakes one of those that wait.

    A ring that comes while nobody waits is kept for the next worker that does. Where the system has
    no eventfd, there are no rings, and workers offer nothing.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def make(cls) -> Bell:
        if not hasattr(os, "eventfd"):
            return cls(-1)
        # Non-blocking: a full counter must not stop who rings, nor an empty one who hushes
        return cls(os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC))

    @classmethod
    def inherited(cls, arguments: list[str]) -> Bell:
        """The host's bell, in a child that was started with `Bell.arguments` among its
        `arguments`."""
        return cls(int(arguments[0]) if arguments else -1)

    @property
    def arguments(self) -> tuple[str, ...]:
        return (str(self._fd),) if self._fd >= 0 else ()

    @property
    def fds(self) -> tuple[int, ...]:
        """The files that a child is to inherit, for `Child.spawn`'s `pass_fds`."""
        return (self._fd,) if self._fd >= 0 else ()

    def ring(self) -> None:
        if self._fd < 0:
            return
        with contextlib.suppress(BlockingIOError):  # rung often enough already
            os.eventfd_write(self._fd, 1)

    def hush(self) -> None:
        """Takes note of all rings so far, so that the next `await_bell` waits again."""
        with contextlib.suppress(BlockingIOError):  # somebody else was faster
            os.eventfd_read(self._fd)

    def close(self) -> None:
        """Closes the eventfd; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
