from __future__ import annotations

import threading
import time

from aiosearch.checks.watchdog import Watchdog


def test_what_takes_too_long_is_interrupted():
    """The interrupt comes once the time is over, and can be told afterwards."""
    stop = threading.Event()
    dog = Watchdog(0.05)
    start = time.monotonic()
    with dog.awake(), dog.watch(stop.set):
        assert stop.wait(10)
    assert dog.fired
    assert time.monotonic() - start >= 0.05


def test_what_is_quick_is_left_alone():
    """Neither the quick one nor what follows it is interrupted."""
    dog = Watchdog(0.02)
    called = threading.Event()
    with dog.awake():
        with dog.watch(called.set):
            pass
        assert not called.wait(0.1)
    assert not dog.fired
