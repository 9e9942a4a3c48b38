"""A shorter switch interval of the interpreter, for an event loop beside threads that compute."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERVAL = 0.001
"""Seconds after which a thread that computes lets another one have its turn."""


class _SharedInterval:
    """Who wants short turns, and what the interval was before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.before = INTERVAL


_shared = _SharedInterval()


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """In the body the event loop gets its turn within about a millisecond, whatever threads
    compute.

    Python's own interval is 5 ms (`sys.getswitchinterval`), and a loop that wakes while a
    thread computes waits for as long. A shorter interval, and one that was set meanwhile, is
    left as it is.
    """
    with _shared.lock:
        _shared.count += 1
        if _shared.count == 1:
            _shared.before = sys.getswitchinterval()
            if _shared.before > INTERVAL:
                sys.setswitchinterval(INTERVAL)
    try:
        yield
    finally:
        with _shared.lock:
            _shared.count -= 1
            # The interpreter keeps whole microseconds, so what is read back may differ a little
            ours = abs(sys.getswitchinterval() - INTERVAL) < INTERVAL / 100
            if not _shared.count and ours:
                sys.setswitchinterval(_shared.before)
