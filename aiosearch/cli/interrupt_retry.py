"""A second SIGINT for one that arrived in a callback whose errors Python only reports."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
