"""SIGINT and SIGTERM while the console script searches; and a second SIGINT for a lost one.

A signal is lost in a callback whose errors Python only reports.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The first signal asks to stop, the second one breaks off; `count` says how many came.

    A loop that does not get round to the first one is stuck in the problem's own code: there the
    next one raises KeyboardInterrupt. So does a third.
    """

    def __init__(self, stop: Callable[[], None], break_off: Callable[[], None]) -> None:
        import asyncio  # slow to import, and `aiosearch --help` needs none of it

        self.count = 0
        self._stop = stop
        self._break_off = break_off
        self._loop = asyncio.get_running_loop()
        self._noticed = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._arrived) for number in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 2 or self._noticed < self.count - 1:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._notice)

    def _notice(self) -> None:
        self._noticed += 1
        if self._noticed == 1:
            self._stop()
        else:
            self._break_off()


AGAIN_SECONDS = 0.01


@contextmanager
def repeat_lost_interrupt() -> Iterator[None]:
    """Has it come once more. JAX has such a callback, which runs with the garbage collection."""
    before = sys.unraisablehook

    def hook(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is KeyboardInterrupt:
            again = threading.Timer(AGAIN_SECONDS, _interrupt)
            again.daemon = True
            again.start()
        else:
            before(lost)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _interrupt() -> None:
    """As a signal, which also ends what the main thread waits for in the system."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)
