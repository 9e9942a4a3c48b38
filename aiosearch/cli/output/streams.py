"""The console script's streams: results to stdout, messages and the log to stderr; exit codes."""

from __future__ import annotations

import enum
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from typing import TextIO

import msgspec

from ...errors import AiosearchError
from ...plain import plain_lines
from .units import clock


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


STDERR = 2
CLEAR = "\x1b[2J\x1b[H"
"""Empties a terminal, and goes to its first line."""


class OutputError(AiosearchError):
    """The result cannot be written."""


def give(text: str) -> None:
    """Writes a line of the result; raises BrokenPipeError when nobody reads it any more."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write to stdout: {error.strerror}") from None


def give_json(value: object) -> None:
    """Writes a line of JSON; what JSON cannot say is written as Python would."""
    give(to_json(value).decode())


def to_json(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=repr)


def open_stderr() -> None:
    """Where it was closed from the start, messages go nowhere, those of other processes too."""
    if sys.stderr is None:
        fd = os.open(os.devnull, os.O_WRONLY)
        if fd != STDERR:
            os.dup2(fd, STDERR)
            os.close(fd)
        sys.stderr = os.fdopen(STDERR, "w", closefd=False)


_dated: ContextVar[bool] = ContextVar("_dated", default=False)


@contextmanager
def dated_messages() -> Iterator[None]:
    """Lets every message begin with date and time, as a log of a night needs."""
    token = _dated.set(True)
    try:
        yield
    finally:
        _dated.reset(token)


def dated(text: str) -> str:
    """The message with date and time before it within `dated_messages`; a table stays as it is."""
    return f"{clock()}  {text}" if _dated.get() and "\n" not in text else text


def tell(text: str) -> None:
    """Writes a line to the person who watches, if there still is one."""
    try:
        sys.stderr.write(dated(plain_lines(text)) + "\n")
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def complain(text: str) -> None:
    """Tells what went wrong."""
    tell(f"aiosearch: {text}")


@contextmanager
def reserved_stdout() -> Iterator[int]:
    """Gives a descriptor of stdout; what others print meanwhile, workers included, goes to stderr.

    So stdout holds the result and nothing else, whatever the problem's own code prints.
    """
    sys.stdout.flush()
    fd = os.dup(1)
    try:
        os.dup2(2, 1)
        with redirect_stdout(sys.stderr):
            yield fd
    finally:
        os.dup2(fd, 1)
        os.close(fd)


def flush_output() -> None:
    """Writes what is left, and lets the interpreter end without a word where nobody takes it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            _discard(stream)


def _discard(stream: TextIO) -> None:
    """Sends what a stream still holds, which the interpreter would fail on at its end, nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Exit(enum.IntEnum):
    """How a command ended."""

    FINE = 0
    """The search is complete or has reached a limit, whether or not there are solutions."""
    FAILED = 1
    """The search, or an essential check of `doctor`, failed."""
    USAGE = 2
    """The user got something wrong; nothing was searched."""
    INTERRUPTED = 130
    """Ctrl-C or SIGTERM."""


class UsageError(AiosearchError):
    """One sentence for stderr: what was wrong, where, and what to do."""
