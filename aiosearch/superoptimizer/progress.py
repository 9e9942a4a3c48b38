"""Progress callbacks of long work, which may say stop, and the CPU seconds of its phases.

CPU seconds, of this process and all that it started and waited for.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

ShouldContinue: TypeAlias = Callable[[str], bool]
"""Is told what is being done, from any thread; says False where what there is will do. What it
raises breaks the work off."""


def always_continue(text: str) -> bool:
    return True


@dataclass
class StopRecorder:
    """Says what `going` says, and notes what was not done because of it."""

    going: ShouldContinue
    undone: list[str] = field(default_factory=list)
    """What was about to be done; what is of its kind and comes after it was not done either."""

    def __call__(self, text: str) -> bool:
        if self.going(text):
            return True
        self.undone.append(text)
        return False


def cpu_seconds() -> float:
    """User and system seconds since this process began; of children, once they have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


class PhaseClock:
    """What each of several things takes, one after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = cpu_seconds()

    def took(self, what: str) -> None:
        """All since the thing before was this one."""
        now = cpu_seconds()
        self.seconds[what] = now - self._last
        self._last = now
