"""The engine's log, as lines on stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from .streams import complain


class _Lines(logging.Handler):
    """Writes a record without its traceback, unless that is wanted."""

    def __init__(self, verbose: bool) -> None:
        super().__init__(logging.DEBUG if verbose else logging.WARNING)
        self._verbose = verbose

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            text += f" ({type(error).__name__}: {error})"
        if error is not None and self._verbose:
            text += "\n" + logging.Formatter().formatException(record.exc_info)  # type: ignore[arg-type]  # it holds an error
        complain(text)


@contextmanager
def logs_to_stderr(verbose: bool) -> Iterator[None]:
    """Tells warnings, and what is worse, for as long as it is entered."""
    log = logging.getLogger("aiosearch")
    handler = _Lines(verbose)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
