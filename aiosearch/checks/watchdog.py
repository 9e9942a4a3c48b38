"""A thread that interrupts a computation which outlives its time.

z3's own time-out starts a thread for every check, which costs as much as a proof does (60 us);
one that looks around every few milliseconds while there is work costs nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COARSEST = 0.05


class Watchdog:
    """Calls the `interrupt` of whatever is being watched once its `seconds` are over."""

    def __init__(self, seconds: float) -> None:
        self.fired = False
        """Whether the latest watch was interrupted."""
        self._seconds = seconds
        self._period = min(COARSEST, seconds / 4)
        self._lock = threading.Lock()
        self._busy = threading.Event()
        self._interrupt: Callable[[], object] | None = None
        self._end = 0.0
        threading.Thread(target=self._run, daemon=True).start()

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Must surround the watches; outside it, the thread sleeps."""
        self._busy.set()
        try:
            yield
        finally:
            self._busy.clear()

    @contextlib.contextmanager
    def watch(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Interrupts its body, never what comes after it, when the time is over."""
        self.fired = False
        self._end = time.monotonic() + self._seconds
        self._interrupt = interrupt
        try:
            yield
        finally:
            with self._lock:
                self._interrupt = None

    def _run(self) -> None:
        while True:
            self._busy.wait()
            time.sleep(self._period)
            with self._lock:
                if self._interrupt is not None and time.monotonic() >= self._end:
                    self.fired = True
                    self._interrupt()
