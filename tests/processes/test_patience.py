"""How long a process is waited for."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from aiosearch.processes import patience
from aiosearch.processes.patience import Late, Patience

BEAT = 0.01
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "BEAT", BEAT)
    monkeypatch.setattr(patience, "STOPPED_SECONDS", 3 * BEAT)


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def silence() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


@linux
async def test_who_is_stopped_is_not_waited_for(sleeper: int) -> None:
    """Neither for ever nor until his time is over; who runs is waited for."""
    os.kill(sleeper, signal.SIGSTOP)
    assert await Patience(sleeper).until(silence()) is Late.STOPPED
    os.kill(sleeper, signal.SIGCONT)
    answer = silence()
    waiting = asyncio.ensure_future(Patience(sleeper).until(answer))
    await asyncio.wait([waiting], timeout=10 * BEAT)
    assert not waiting.done()
    answer.set_result(None)
    assert await waiting is None


async def test_time_begins_anew_with_every_sign_of_life(sleeper: int) -> None:
    """Who says nothing is late; who announces something in each beat is not, for as long."""
    assert await Patience(sleeper, 3 * BEAT).until(silence()) is Late.WORKING
    signs = itertools.count()
    lively: Callable[[], int] = lambda: min(next(signs), 9)  # noqa: E731
    assert await Patience(sleeper, 3 * BEAT, lively).until(silence()) is Late.WORKING
    assert next(signs) >= 10


async def test_time_in_which_everybody_stood_still_does_not_count(
    sleeper: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it was, it is one beat, and it is known that there was such a time."""
    monkeypatch.setattr(patience, "_HELD_UP", BEAT)
    wait, answer = Patience(sleeper, 50 * BEAT), silence()
    waiting = asyncio.ensure_future(wait.until(answer))
    await asyncio.sleep(0)
    time.sleep(60 * BEAT)  # noqa: ASYNC251  # nothing of this process runs, as when it is stopped
    done, _ = await asyncio.wait([waiting], timeout=2 * BEAT)
    assert not done
    answer.set_result(None)
    assert await waiting is None
    assert wait.interrupted
