"""Deadlines for processes; time in which the machine or the process was stopped does not count.

The problem: a laptop sleeps, a debugger stops a job, a loaded machine does not schedule this
process for seconds. A deadline by the clock would then kill children that are at work. So
`Patience` counts beats: a second counts if this process was awake at its end. For a child that may
take 10 seconds and a machine that sleeps for an hour after 4, the child has 6 seconds left.

Who is stopped alone (SIGSTOP, state `T`) is waited for `STOPPED_SECONDS` only.
"""

from __future__ import annotations

import asyncio
import enum
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BEAT = 1.0
"""Seconds between two looks at the process."""
STOPPED_SECONDS = 10.0
"""Who is stopped for so many seconds does not go on: a shell's job is stopped, and so goes on,
whole."""
_HELD_UP = 1.0
"""A beat that comes this many seconds too late is one in which this process stood still, too."""


class Patience:
    """Patience with one process, `pid`, for one answer."""

    def __init__(
        self, pid: int, seconds: float = math.inf, sign: Callable[[], object] = lambda: None
    ) -> None:
        self.interrupted = False
        """Whether this process stood still meanwhile, so that a verdict on the child is in
        doubt."""
        self._pid = pid
        self._seconds = seconds
        self._sign = sign

    async def until(self, answer: asyncio.Future[Any]) -> Late | None:
        """Returns None when there is an answer, or says why it is waited for no longer.

        Its `seconds` begin anew whenever `sign` gives another value: the process's sign of
        life.
        """
        left, stopped, seen = self._seconds, 0.0, self._sign()
        while not answer.done():
            beat = min(BEAT, left)
            await self._beat(answer, beat)
            if answer.done():
                break
            # The beat as planned, not as it passed: time in which nobody ran is nobody's fault
            left -= beat
            if (sign := self._sign()) != seen:
                left, seen = self._seconds, sign
            stopped = stopped + beat if is_stopped(self._pid) else 0.0
            if stopped >= STOPPED_SECONDS:
                return Late.STOPPED
            if left <= 0:
                return Late.WORKING
        return None

    async def _beat(self, answer: asyncio.Future[Any], seconds: float) -> None:
        begun = time.monotonic()
        await asyncio.wait([answer], timeout=seconds)
        self.interrupted |= time.monotonic() - begun > seconds + _HELD_UP


class Late(enum.StrEnum):
    """Why a process is not waited for any longer."""

    WORKING = "it was still at work when its time was over"
    STOPPED = "it was stopped, and did not go on"


def is_stopped(pid: int) -> bool:
    """Whether a process stands still because of a signal; False where that cannot be seen."""
    if sys.platform != "linux":
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    # The command may hold spaces and parentheses; the state is the first field behind the last one
    return stat.rpartition(")")[2].split()[0] == "T"
