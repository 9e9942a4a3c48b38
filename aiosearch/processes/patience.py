"""Deadlines for processes; time in which the machine or the process was stopped does not count.

What counts is time in which this process ran as well: where a whole group of processes is stopped,
or the machine, nobody is late for it.
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
"""Seconds after which is looked again."""
STOPPED_SECONDS = 10.0
"""Who is stopped for so long does not go on: a shell's job is stopped, and so goes on, whole."""
_HELD_UP = 1.0
"""A beat that comes so much too late is one in which this process stood still, too."""


class Patience:
    """With one process, for one answer."""

    def __init__(
        self, pid: int, seconds: float = math.inf, sign: Callable[[], object] = lambda: None
    ) -> None:
        self.interrupted = False
        """Whether this process stood still meanwhile."""
        self._pid = pid
        self._seconds = seconds
        self._sign = sign

    async def until(self, answer: asyncio.Future[Any]) -> Late | None:
        """Returns when there is an answer, or says why it is waited for no longer.

        Its `seconds` begin anew whenever the process gives another sign of life.
        """
        left, stopped, seen = self._seconds, 0.0, self._sign()
        while not answer.done():
            beat = min(BEAT, left)
            await self._beat(answer, beat)
            if answer.done():
                break
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
    """Whether a process stands still because of a signal; says no where that cannot be seen."""
    if sys.platform != "linux":
        return False
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"
