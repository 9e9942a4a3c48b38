from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, field

import pytest

from aiosearch.cli.output.json_lines import MOST_WAITING, JsonLines
from aiosearch.cli.output.screen import PlainScreen, ProgressPrinter, Screen
from aiosearch.cli.output.streams import tell
from aiosearch.events import (
    Improved,
    Progress,
    SearchFinished,
    SearchStarted,
    WorkerLost,
    WorkReported,
)


@dataclass
class Paper:
    """A screen that keeps what it is shown."""

    width: int = 60
    lines: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    closed: bool = False

    def line(self, text: str) -> None:
        self.lines.append(text)

    def status(self, text: str) -> None:
        self.statuses.append(text)

    def close(self) -> None:
        self.closed = True


def improved(number: int, seconds: float = 0.0, cost: float | None = None) -> Improved:
    return Improved(seconds=seconds, number=number, solution=[number] * 40, cost=cost, worker=1)


def progress(**changes: object) -> Progress:
    figures: dict[str, object] = {
        "seconds": 12.4,
        "nodes": 1_230_000,
        "nodes_per_second": 98_200.0,
        "open": 1234,
        "solutions": 0,
        "best_cost": None,
        "explored": None,
        "remaining": None,
        "cache_hits": 0,
        "checks": 0,
        "checks_in_flight": 0,
        "workers": 1,
        "refused": {},
    }
    return Progress(**(figures | changes))  # type: ignore[arg-type]  # as the fields are


def started(workers: int, machines: bool) -> SearchStarted:
    return SearchStarted(
        seconds=0.0,
        problem="P",
        order="O",
        strategy="S",
        workers=workers,
        seed=0,
        resumed=False,
        machines=machines,
    )


def finished() -> SearchFinished:
    return SearchFinished(
        seconds=9.0, status="complete", reason="", nodes=1, solutions=0, best=None, best_cost=None
    )


def watched(*events: object) -> Paper:
    paper = Paper()
    shown: Screen = paper
    watch = ProgressPrinter(shown, "title")
    for event in events:
        watch(event)  # type: ignore[arg-type]  # events of many kinds
    return paper


def test_improvement() -> None:
    """An improvement is a line with number, time, cost, worker and nodes."""
    work = WorkReported(
        seconds=1.0, worker=1, nodes=1_200_000, busy=1.0, waiting=0.0, kept=0, given=0
    )
    paper = watched(work, improved(3, 12.4, 8231.0))
    assert paper.lines == ["#3        12.4s  best 8231  worker 1  nodes 1.2M"]


def test_solution_without_cost_fits_the_screen() -> None:
    """A solution without a cost is shown itself, as far as there is room."""
    [line] = watched(improved(1)).lines
    assert len(line) == 60
    assert "[1, 1," in line


def test_quick_improvements_are_thinned_out() -> None:
    """Improvements that come very fast are not all shown, but the last one is."""
    fast = [improved(number, number / 1000, 1000.0 - number) for number in range(1, 41)]
    paper = watched(*fast, finished())
    assert [line.split()[0] for line in paper.lines] == [*(f"#{n}" for n in range(1, 11)), "#40"]
    assert paper.closed


def test_held_improvement_is_shown_soon() -> None:
    """An improvement that was held back is shown with the next progress."""
    fast = [improved(number, 0.0, 1000.0 - number) for number in range(1, 13)]
    assert watched(*fast, progress()).lines[-1].startswith("#12")


def test_status() -> None:
    """The status says what is known, and nothing of what is not."""
    [plain] = watched(progress()).statuses
    assert plain == "   12.4s  1.23M nodes  98.2k/s  open 1.23k"
    [full] = watched(
        progress(
            best_cost=5.0,
            explored=0.42,
            remaining=192.0,
            cache_hits=340,
            checks=1200,
            checks_in_flight=2,
        )
    ).statuses
    assert full.endswith(
        "best 5  open 1.23k  explored 42.0%  3m 12s to go"
        "  z3 2 in flight, 1.2k asked  340 cache hits"
    )


@pytest.mark.parametrize(
    ("explored", "text"),
    [(0.0, "0.0%"), (1e-9, "<0.1%"), (0.9999, ">99.9%"), (1.0, "100.0%")],
)
def test_explored(explored: float, text: str) -> None:
    """Neither a beginning nor an end is rounded away."""
    assert f"explored {text}" in watched(progress(explored=explored)).statuses[0]


def test_lost_worker() -> None:
    """A worker's death is told."""
    [line] = watched(WorkerLost(seconds=1.0, worker=2, reason="signal 9")).lines
    assert line == "worker 2 died (signal 9); its work is done again"


def test_a_worker_that_was_let_go_is_no_death() -> None:
    assert watched(WorkerLost(seconds=1.0, worker=2, reason="bye", died=False)).lines == []


@pytest.mark.parametrize(
    ("workers", "machines", "told"),
    [
        (0, False, "this process"),
        (0, True, "other machines"),
        (1, False, "1 worker"),
        (2, True, "2 workers and other machines"),
    ],
)
def test_who_searches_is_told_at_the_start(workers: int, machines: bool, told: str) -> None:
    [line] = watched(started(workers, machines)).lines
    assert line == f"title  O, strategy S, {told}"


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        ({}, "waiting for machines"),
        (
            {"a": "old", "b": "old", "c": "new"},
            "waiting for machines; 2 refused: old; 1 refused: new",
        ),
    ],
)
def test_a_search_that_nobody_serves_says_what_it_waits_for(
    refused: dict[str, str], told: str
) -> None:
    [status] = watched(started(0, True), progress(workers=0, refused=refused)).statuses
    assert status == f"   12.4s  {told}"


def test_a_search_that_lacks_its_own_workers_for_a_moment_waits_for_no_machine() -> None:
    [status] = watched(started(1, False), progress(workers=0)).statuses
    assert "waiting" not in status


def test_plain_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal, progress is a line only when nothing was written for ten seconds."""
    now = 0.0
    monkeypatch.setattr("aiosearch.cli.output.screen.time.monotonic", lambda: now)
    screen = PlainScreen(pytest.fail)
    now = 9.0
    screen.status("early")
    now = 10.0
    screen.status("due")
    now = 19.0
    screen.line("line")
    now = 21.0
    screen.status("early again")
    assert capsys.readouterr().err == "due\nline\n"


def test_what_others_say_is_shown_so_that_no_terminal_obeys_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Lines stay lines, and everything else that cannot be printed is escaped."""
    PlainScreen(pytest.fail).line("one\x1b[2J\ntwo\x9b1A")
    tell("three\rfour")
    assert capsys.readouterr().err.splitlines() == [r"one\x1b[2J", r"two\x9b1A", r"three\rfour"]


async def test_slow_reader() -> None:
    """For a reader that does not keep up, only figures are left out; nothing blocks."""
    ours, theirs = os.pipe()
    lines = JsonLines(theirs, pytest.fail)
    for _ in range(2 * MOST_WAITING):
        lines(progress())
    lines(improved(1))
    lines(finished())
    with os.fdopen(ours) as reader:
        reading = asyncio.create_task(asyncio.to_thread(reader.readlines))
        await lines.drain()
        os.close(theirs)
        kinds = [json.loads(line)["type"] for line in await reading]
    assert kinds[-2:] == ["Improved", "SearchFinished"]
    assert MOST_WAITING < len(kinds) < 2 * MOST_WAITING


async def test_reader_that_leaves() -> None:
    """A reader that goes away is noticed, and later events are dropped."""
    ours, theirs = os.pipe()
    os.close(ours)
    left = asyncio.Event()
    lines = JsonLines(theirs, left.set)
    lines(improved(1))
    await left.wait()
    lines(improved(2))
    await lines.drain()
    assert isinstance(lines.error, BrokenPipeError)
    os.close(theirs)
