"""Waiting for a coroutine where nothing can be awaited, and Ctrl-C meanwhile."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading

import pytest

from aiosearch._waiting import _Waiting, waited_for


async def threads_name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def test_without_a_loop_it_runs_here() -> None:
    assert waited_for(threads_name, "other") == threading.current_thread().name


async def test_in_a_loop_it_runs_in_a_thread_of_that_name() -> None:
    assert waited_for(threads_name, "other") == "other"


async def test_what_it_raises_is_raised() -> None:
    async def fails() -> None:
        raise LookupError("none")

    with pytest.raises(LookupError, match="none"):
        waited_for(fails, "other")


async def test_ctrl_c_ends_it() -> None:
    """The thread has ended when the caller goes on."""
    ended: list[str] = []

    async def forever() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(threading.current_thread().name)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            waited_for(forever, "other")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["other"]
    assert "other" not in {thread.name for thread in threading.enumerate()}


async def test_no_ctrl_c_is_lost() -> None:
    """Also where it comes between the last look at signals and the sleep, or in a lock."""
    slept: list[int] = []

    async def forever() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(5)
        slept.append(1)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    turn = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    gc.disable()  # what is raised in a finaliser is lost, whatever we do
    try:
        for _ in range(500):
            with pytest.raises(KeyboardInterrupt):
                waited_for(forever, "other")
    finally:
        gc.enable()
        sys.setswitchinterval(turn)
        signal.signal(signal.SIGINT, before)
    assert not slept


def test_what_is_cancelled_before_it_begins_never_does() -> None:
    begun: list[bool] = []

    async def begin() -> None:
        begun.append(True)

    waiting = _Waiting(begin)
    waiting.cancel()
    waiting.work()
    with pytest.raises(asyncio.CancelledError):
        waiting.outcome.result()
    assert begun == []


def test_what_is_cancelled_after_its_end_has_ended() -> None:
    waiting = _Waiting(threads_name)
    waiting.work()
    waiting.cancel()
    assert waiting.outcome.result() == threading.current_thread().name
