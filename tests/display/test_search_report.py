"""The page of a search."""

from __future__ import annotations

import html
import re
from pathlib import Path

import msgspec
import pytest
from testkit.browser import screenshot

from aiosearch import Limits, SearchReport, solve
from aiosearch.display.search_report import MOST_SAMPLES
from aiosearch.events import (
    AnyEvent,
    Improved,
    Progress,
    SearchFinished,
    SearchStarted,
    Warned,
    WorkReported,
)
from aiosearch.workloads import TSP, Queens

PROGRESS = Progress(
    seconds=1.0, nodes=100, nodes_per_second=100.0, open=7, solutions=1, best_cost=20.0,
    explored=0.25, remaining=3.0, cache_hits=5, checks=9, checks_in_flight=1, workers=2, refused={},
)  # fmt: skip
STARTED = SearchStarted(
    seconds=0.0, problem="<b>TSP</b>", order="BranchAndBound", strategy="queue", workers=2, seed=0,
    resumed=False,
)  # fmt: skip


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page.partition("</head>")[2])).split())


def heard(*, bound: float | None = 10.0) -> SearchReport:
    """A report of a search that is going on."""
    report = SearchReport(bound=bound)
    report(STARTED)
    report(Improved(seconds=0.5, number=1, solution="<i>tour</i>", cost=20.0, worker=1))
    for second in (1.0, 2.0):
        report(msgspec.structs.replace(PROGRESS, seconds=second, nodes=int(100 * second)))
    report(WorkReported(seconds=2.0, worker=1, nodes=200, busy=1.5, waiting=0.25, kept=0, given=0))
    report(Warned(seconds=2.0, message="slow disk"))
    return report


def test_a_search_writes_its_page_when_it_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "search.html"
    report = SearchReport(path)
    result = solve(TSP(8, 1), workers=0, on=report, limits=Limits(seconds=20))
    text = text_of(path.read_text())
    assert text.startswith("TSP")
    assert "complete everything is explored" in text
    assert f"{result.best_cost:g} best cost" in text
    assert "0.0% gap" in text or "gap" not in text
    assert [entry.name for entry in tmp_path.iterdir()] == ["search.html"]


def test_the_bound_rises_to_the_best_cost_and_the_gap_closes(tmp_path: Path) -> None:
    heard: list[AnyEvent] = []
    report = SearchReport()
    result = solve(TSP(26, 5), workers=0, on=[heard.append, report], progress_seconds=0.01)
    assert result.best_cost is not None
    bounds = [event.bound for event in heard if isinstance(event, Progress)]
    known = [bound for bound in bounds if bound is not None]
    assert known
    assert max(known) <= result.best_cost
    text = text_of(report.page())
    assert "Gap between the best cost and the bound" in text
    assert f"{result.best_cost:g} bound 0.0% gap" in text


@pytest.mark.parametrize("order", ["depth-first", "breadth-first"])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_nodes_of_each_depth_are_counted_and_drawn(order: str, workers: int) -> None:
    report = SearchReport()
    result = solve(Queens(9), workers=workers, order=order, on=report)
    counted = report.depths
    assert sum(counted.values()) == result.statistics.nodes
    assert set(counted) <= set(range(10))
    if order == "breadth-first":
        assert [counted[depth] for depth in range(3)] == [1, 9, 56]
    assert "The tree by depth" in text_of(report.page())


def test_a_page_of_a_search_that_goes_on_says_how_far_it_is() -> None:
    text = text_of(heard().page())
    for figure in ("200 nodes", "20 best cost", "10 bound", "50.0% gap", "25.0% explored"):
        assert figure in text
    assert "1 200 1.5 s 0.2 s 1 0" in text
    assert "answered by the cache 5" in text
    assert "slow disk" in text


def test_a_running_search_is_loaded_again_and_an_ended_one_is_not() -> None:
    report = heard()
    assert 'http-equiv="refresh"' in report.page(refresh=2)
    ended = SearchFinished(
        seconds=3.0, status="complete", reason="", nodes=300, solutions=1, best=None, best_cost=20.0
    )
    report(ended)
    assert report.finished
    assert 'http-equiv="refresh"' not in report.page(refresh=2)
    assert "20 bound 0.0% gap" in text_of(report.page())


def test_what_the_problem_says_is_text() -> None:
    page = heard().page()
    assert "<b>TSP" not in page
    assert "<i>tour" not in page
    assert "&lt;b&gt;TSP" in page


def test_a_long_search_keeps_no_more_samples_than_a_short_one() -> None:
    report = SearchReport()
    for second in range(5 * MOST_SAMPLES):
        report(msgspec.structs.replace(PROGRESS, seconds=float(second)))
    assert len(report.page()) < 10 * len(heard().page()) + 400_000


def test_a_notebook_shows_it() -> None:
    assert "<html" not in heard()._repr_html_()
    assert "Workers" in heard()._repr_html_()


def test_a_browser_shows_the_page(tmp_path: Path) -> None:
    path = heard().save(tmp_path / "search.html")
    picture, said = screenshot(path.as_uri(), tmp_path / "page.png")
    assert picture.stat().st_size > 10_000
    assert "Refused" not in said
