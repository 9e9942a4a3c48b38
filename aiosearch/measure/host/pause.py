"""Stopping processes (SIGSTOP) while something else is timed, so that they take no time from it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def paused(pids: Iterable[int]) -> Iterator[None]:
    """Stops processes that this one started and has not waited for, and lets them go on after."""
    stopped: list[int] = []
    try:
        stopped.extend(pid for pid in pids if _send(pid, signal.SIGSTOP))
        yield
    finally:
        for pid in stopped:
            _send(pid, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
