"""CPU seconds, of this process and all that it started and waited for."""

from __future__ import annotations

import resource


def cpu_seconds() -> float:
    """User and system seconds since this process began; of children, once they have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


class Clock:
    """What each of several things takes, one after the other."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = cpu_seconds()

    def took(self, what: str) -> None:
        """All since the thing before was this one."""
        now = cpu_seconds()
        self.seconds[what] = now - self._last
        self._last = now
