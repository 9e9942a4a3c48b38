"""Search time."""

from __future__ import annotations

import time


class Stopwatch:
    """Search time: what a journal holds, and what passes from the start to the end."""

    def __init__(self) -> None:
        self.before = 0.0
        """Seconds before a resume."""
        self._started: float | None = None
        self._ended: float | None = None

    def start(self) -> None:
        self._started = time.monotonic()

    def stop(self) -> None:
        self._ended = time.monotonic()

    @property
    def seconds(self) -> float:
        if self._started is None:
            return 0.0
        return self.before + (self._ended or time.monotonic()) - self._started

    def seconds_at(self, moment: float) -> float:
        """The search time of a moment of the monotonic clock."""
        return moment + self.before - (self._started or 0.0)
