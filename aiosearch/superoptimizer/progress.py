"""Progress callbacks of long work, which may say stop, and the CPU seconds of its phases.

CPU seconds are those of this process and of all that it started and waited for.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

ShouldContinue: TypeAlias = Callable[[str], bool]
"""Gets a text about what is being done, from any thread; returns False to stop with what there is.
An exception that it raises breaks the work off."""


def always_continue(text: str) -> bool:
    """A `ShouldContinue` that never stops."""
    return True


@dataclass
class StopRecorder:
    """Returns what `going` returns, and records what was not done because of it."""

    going: ShouldContinue
    undone: list[str] = field(default_factory=list)
    """The texts at which `going` stopped; later work of the same kind was not done either."""

    def __call__(self, text: str) -> bool:
        if self.going(text):
            return True
        self.undone.append(text)
        return False


def cpu_seconds() -> float:
    """User and system seconds since this process began; of children, once they have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class PhaseClock:
    """The CPU seconds of several phases, one after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = cpu_seconds()

    def took(self, what: str) -> None:
        """Ends the phase `what`: all since the end of the phase before belongs to it."""
        now = cpu_seconds()
        self.seconds[what] = now - self._last
        self._last = now
