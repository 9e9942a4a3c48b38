from __future__ import annotations

import asyncio
import os
import select
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from aiosearch.engine.wire.messages import Ping, encode
from aiosearch.engine.worker.slots import MODULE
from aiosearch.processes.child import Child

Loop = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
COUNT, SIZE = 100, 20


async def last_words(before: Callable[[Child], None]) -> list[bytes]:
    """What is heard of a child that has ended before its host looks."""
    heard: list[bytes] = []
    gone = asyncio.Event()
    child = await Child.spawn("talker", heard.append, gone.set, arguments=(str(COUNT), str(SIZE)))
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222  # nobody reads now
    before(child)
    await gone.wait()
    await child.reap()
    return heard


@LOOPS
@pytest.mark.parametrize("writes", [0, 1, 2])
def test_all_that_a_dead_child_said_is_heard_before_it_is_gone(loop: Loop, writes: int) -> None:
    """Also where its host writes to it before it reads, and learns of its death like that."""

    def write(child: Child) -> None:
        for _ in range(writes):
            child.send(b"are you there?")

    with asyncio.Runner(loop_factory=loop) as runner:
        heard = runner.run(last_words(write))
    assert [int.from_bytes(payload, "little") for payload in heard] == list(range(COUNT))


@LOOPS
def test_nothing_is_heard_of_a_child_that_was_killed(loop: Loop) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(last_words(Child.kill)) == []


@asynccontextmanager
async def worker(heard: Callable[[bytes], None] = lambda frame: None) -> AsyncIterator[Child]:
    """A worker process that has said that it is there."""
    here = asyncio.Event()

    def hear(frame: bytes) -> None:
        heard(frame)
        here.set()

    child = await Child.spawn(MODULE, hear)
    try:
        await here.wait()
        yield child
    finally:
        child.kill()
        await child.reap()


@LOOPS
def test_a_child_that_has_answered_is_not_silent_however_late_its_host_looks(loop: Loop) -> None:
    """Not even where the loop was held up for longer than the child had for its answer."""
    silent: list[bool] = []

    async def look() -> None:
        frames: asyncio.Queue[bytes] = asyncio.Queue()
        async with worker(frames.put_nowait) as child:
            await frames.get()
            child.probe(encode(Ping()), 1e-9, lambda: silent.append(True))
            select.select([child._unread], [], [])
            await frames.get()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(look())
    assert silent == []


async def test_a_frozen_child_is_silent() -> None:
    silent = asyncio.Event()
    async with worker() as child:
        os.kill(child.pid, signal.SIGSTOP)
        child.probe(encode(Ping()), 0.01, silent.set)
        await silent.wait()
