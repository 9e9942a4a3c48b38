"""A line of progress where a person looks."""

from __future__ import annotations

from io import StringIO

from aiosearch import ProgressLine, solve
from aiosearch.display.status_line import TerminalLine
from aiosearch.events import Progress, SearchFinished
from aiosearch.workloads import TSP

PROGRESS = Progress(
    seconds=1.0,
    nodes=1200,
    nodes_per_second=100.0,
    open=7,
    solutions=1,
    best_cost=20.0,
    explored=0.25,
    remaining=3.0,
    cache_hits=5,
    checks=9,
    checks_in_flight=1,
    workers=2,
    refused={},
)


def test_it_says_how_far_a_search_is_and_is_gone_at_the_end() -> None:
    stream = StringIO()
    line = ProgressLine(TerminalLine(stream))
    line(PROGRESS)
    assert stream.getvalue().endswith("1,200 nodes, 100/s, best 20, 25% explored, 3 s left")
    line(
        SearchFinished(
            seconds=2.0,
            status="complete",
            reason="",
            nodes=1,
            solutions=0,
            best=None,
            best_cost=None,
        )
    )
    assert stream.getvalue().endswith("\r\x1b[2K")


def test_where_nobody_looks_it_is_silent() -> None:
    assert solve(TSP(6, 1), workers=0, on=ProgressLine()).best is not None
