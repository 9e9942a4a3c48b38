"""How an optimization stands, in numbers, and who is shown that."""

from __future__ import annotations

import asyncio
import io
import sys
from types import ModuleType
from typing import Any

import pytest

from aiosearch.optimizer import progress
from aiosearch.optimizer.effort import Effort, effort_step, effort_steps
from aiosearch.optimizer.progress import (
    OptimizeProgress,
    ProgressReporter,
    expected_seconds,
    told_progress,
)

QUICK = effort_step(Effort.QUICK)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("best", "left", "text"),
    [
        (None, None, "racing 8"),
        (2.6, None, "racing 8, best 2.6x"),
        (2.64, 14.2, "racing 8, best 2.6x, 14 s left"),
        (None, 0.0, "racing 8, 0 s left"),
        (12.0, 240.0, "racing 8, best 12.0x, 4 min left"),
    ],
)
def test_it_reads_as_a_clause(best: float | None, left: float | None, text: str) -> None:
    assert str(OptimizeProgress("racing 8", best, 3.0, left)) == text


def test_what_is_left_is_what_the_steps_may_spend(clock: list[float]) -> None:
    reporter = ProgressReporter(_started=clock[0])
    reporter.comes([QUICK, QUICK])
    seconds = expected_seconds(QUICK.budget)
    assert reporter.now().left == pytest.approx(2 * seconds)
    reporter.begins()
    clock[0] += 1
    assert reporter.now().left == pytest.approx(2 * seconds - 1)


def test_a_step_that_took_long_says_how_long_others_take(clock: list[float]) -> None:
    reporter = ProgressReporter(_started=clock[0])
    reporter.comes([QUICK, QUICK])
    reporter.begins()
    clock[0] += 3 * expected_seconds(QUICK.budget)
    assert reporter.now().left is None, "more was spent than expected"
    reporter.ends()
    assert reporter.now().left == pytest.approx(3 * expected_seconds(QUICK.budget))


def test_no_more_is_left_than_the_limit_allows(clock: list[float]) -> None:
    reporter = ProgressReporter(deadline=clock[0] + 2, _started=clock[0])
    reporter.comes(list(effort_steps(Effort.EXHAUSTIVE)))
    assert reporter.now().left == 2
    clock[0] += 5
    assert reporter.now().left == 0


async def shown(asked_for: Any = None) -> None:
    reporter = ProgressReporter()
    reporter.doing("racing 8")
    async with told_progress(reporter, asked_for):
        await asyncio.sleep(0)  # the first tick comes before anything else


async def test_a_terminal_shows_it_in_one_line_that_goes_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    await shown()
    assert "racing 8" in terminal.getvalue()
    assert "\n" not in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[2K")


async def test_where_nobody_looks_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is asked for."""
    for asked_for, stream in ((None, io.StringIO()), (False, Terminal())):
        monkeypatch.setattr(sys, "stderr", stream)
        await shown(asked_for)
        assert stream.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    await shown(True)
    assert "racing 8" in stream.getvalue()


async def test_a_function_hears_it_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    heard: list[OptimizeProgress] = []
    await shown(heard.append)
    assert {standing.doing for standing in heard} == {"racing 8"}
    assert terminal.getvalue() == ""


async def test_what_a_listener_raises_is_not_lost() -> None:
    def listener(standing: OptimizeProgress) -> None:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        await shown(listener)


class ZMQInteractiveShell:
    """What IPython calls the shell behind a notebook."""


async def test_a_notebook_has_an_output_that_is_written_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts: list[str] = []

    class Handle:
        def update(self, shown: dict[str, str], *, raw: bool) -> None:
            texts.append(shown["text/plain"])

    def display(shown: dict[str, str], *, raw: bool, display_id: bool) -> Handle:
        texts.append(shown["text/plain"])
        return Handle()

    ipython: Any = ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell
    ipython.display = ModuleType("IPython.display")
    ipython.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    await shown()
    assert texts[0] == "racing 8"
    assert texts[-1] == ""
