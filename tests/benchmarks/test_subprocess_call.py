"""Work in a process of its own: its result, or what became of it."""

from __future__ import annotations

import multiprocessing
import os
import threading

import pytest
from lib.kernels.subprocess_call import ApartError, apart

MUCH = 60.0
"""Seconds, on a machine that has much to do."""


def doubled(text: str) -> str:
    return 2 * text


def raises() -> None:
    raise KeyError("absent\nand more")


def dies() -> None:
    os._exit(7)


def waits() -> None:
    threading.Event().wait()


def test_work_returns_what_it_does_here() -> None:
    assert apart(doubled, "ab", seconds=MUCH) == "abab"


def test_work_that_raises_dies_or_is_late_says_so_and_leaves_no_process() -> None:
    with pytest.raises(ApartError, match=r"KeyError: 'absent"):
        apart(raises, seconds=MUCH)
    with pytest.raises(ApartError, match="its process died with exit code 7"):
        apart(dies, seconds=MUCH)
    with pytest.raises(ApartError, match=r"it took longer than 0\.5 s"):
        apart(waits, seconds=0.5)
    assert not multiprocessing.active_children()
