"""Whether the other end is there, on a clock that jumps to whatever comes next."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

import pytest
from testkit.hosts.in_process_links import PairLink, pair

from aiosearch.remote.heartbeat import PATIENCE, Heartbeat

LONG = 300.0


class _Jumping(selectors.DefaultSelector):
    """Where nothing comes, the time that it would have waited has passed."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        events = super().select(0)
        if not events:
            self.skipped += timeout or 0.0
        return events


class Loop(asyncio.SelectorEventLoop):
    """An event loop in which nobody waits."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.skipped


def run(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main)


class End:
    """One end of a link that beats, and why it was closed."""

    def __init__(self, link: PairLink, patience: float) -> None:
        self.reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.link = link
        self.beating = Heartbeat(link, b"here", patience)
        link.open(lambda _: self.beating.heard(), self._closed)
        self.beating.start()

    def _closed(self, reason: str) -> None:
        self.beating.stop()
        self.reason.set_result(reason)


@pytest.mark.parametrize("ours", [PATIENCE, 60.0])
@pytest.mark.parametrize("theirs", [PATIENCE, 60.0])
def test_two_that_are_there_hear_each_other_however_patient_each_is(
    ours: float, theirs: float
) -> None:
    async def main() -> None:
        ends = [End(link, one) for link, one in zip(pair(), (ours, theirs), strict=True)]
        await asyncio.sleep(LONG)
        assert not any(end.reason.done() for end in ends)
        for end in ends:
            end.beating.stop()

    run(main())


@pytest.mark.parametrize("patience", [0.25, 2.0, PATIENCE, 60.0])
def test_one_that_is_silent_is_given_up_after_the_patience_and_a_beat(patience: float) -> None:
    async def main() -> None:
        here, there = (End(link, patience) for link in pair())
        here.link.stuck = True
        started = asyncio.get_running_loop().time()
        assert await here.reason == f"nothing was heard of there for {patience:g} seconds"
        lasted = asyncio.get_running_loop().time() - started
        assert patience < lasted < 1.3 * patience
        there.beating.stop()

    run(main())
