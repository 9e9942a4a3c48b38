"""Waiting for a coroutine where nothing can be awaited, and Ctrl-C meanwhile."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import threading

import pytest

from aiosearch._blocking import _Waiting, to_the_end, waited_for
from aiosearch.testing import no_leaks


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


async def test_no_ctrl_c_is_lost_while_the_thread_starts() -> None:
    """At whatever moment it comes, it is raised when the thread has ended, and as it is."""
    running: list[int] = []

    async def briefly() -> None:
        running.append(1)
        try:
            await asyncio.sleep(0.001)
        finally:
            running.pop()

    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    gc.disable()  # what is raised in a finaliser is lost, whatever we do
    raised = 0
    try:
        for step in range(4000):
            try:
                signal.setitimer(signal.ITIMER_REAL, 5e-5 + 1e-6 * (step % 200))
                waited_for(briefly, "other")
                while True:
                    signal.pause()
            except KeyboardInterrupt:
                raised += 1
            assert not running
    finally:
        gc.enable()
        signal.signal(signal.SIGALRM, before)
    assert raised == 4000


async def test_without_room_for_a_thread_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    with pytest.raises(RuntimeError, match="new thread"):
        waited_for(threads_name, "other")


def test_what_is_cancelled_before_it_begins_never_does() -> None:
    begun: list[bool] = []

    async def begin() -> None:
        begun.append(True)

    waiting = _Waiting(begin, "other")
    waiting.cancel()
    waiting.work()
    with pytest.raises(asyncio.CancelledError):
        waiting.outcome.result()
    assert begun == []


def test_what_is_cancelled_after_its_end_has_ended() -> None:
    waiting = _Waiting(threads_name, "other")
    waiting.work()
    waiting.cancel()
    assert waiting.outcome.result() == threading.current_thread().name


async def test_what_a_thread_gives_or_raises_comes_back() -> None:
    assert await to_the_end(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await to_the_end(divmod, 7, 0)


@pytest.mark.parametrize("divisor", [2, 0])
async def test_whoever_is_cancelled_leaves_when_the_thread_is_done(divisor: int) -> None:
    """However often; what the thread gives or raises then is nobody's."""
    begun, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> int:
        loop.call_soon_threadsafe(begun.set)
        go.wait()
        return 7 // divisor

    async with no_leaks():
        task = asyncio.ensure_future(to_the_end(work))
        await begun.wait()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0)
        early = task.done()
        go.set()
        await asyncio.gather(task, return_exceptions=True)
    assert not early
    assert task.cancelled()
