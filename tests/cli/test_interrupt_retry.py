"""Ctrl-C where its exception gets lost."""

from __future__ import annotations

import sys
import time

import pytest

from aiosearch.cli.signals import repeat_lost_interrupt

LONG = 20.0


class Callback:
    """Python reports what is raised here, and goes on."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __del__(self) -> None:
        raise self.error


def test_an_interrupt_comes_once_more() -> None:
    """Where something is waited for, it is not waited for any longer."""
    started = time.monotonic()
    with repeat_lost_interrupt():
        Callback(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            time.sleep(LONG)
    assert time.monotonic() - started < LONG


def test_other_errors_are_reported_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with repeat_lost_interrupt():
        Callback(ValueError("as before"))
    assert [one.exc_type for one in told] == [ValueError]
