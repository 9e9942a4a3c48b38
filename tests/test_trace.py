from __future__ import annotations

import json
from collections import defaultdict, deque
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from aiosearch import AiosearchError, Search, solve
from aiosearch.events import (
    Checked,
    Improved,
    Progress,
    SearchFinished,
    SearchStarted,
    Warned,
    WorkerJoined,
    WorkerLost,
    WorkReported,
)
from aiosearch.trace import SEARCH, WORKERS, Z3, ChromeTrace
from aiosearch.workloads.queens import Queens
from aiosearch.workloads.superopt import Superopt

Entry = dict[str, Any]


OLD = '{"displayTimeUnit":"ms","traceEvents":[\n]}'
"""A trace that was there before."""


def entries(path: Path) -> list[Entry]:
    trace: list[Entry] = json.loads(path.read_text())["traceEvents"]
    return trace


def report(worker: int, seconds: float, busy: float, waiting: float = 0.0) -> WorkReported:
    return WorkReported(
        seconds=seconds, worker=worker, nodes=5, busy=busy, waiting=waiting, kept=1, given=2
    )


def finish(seconds: float = 9.0) -> SearchFinished:
    return SearchFinished(
        seconds=seconds, status="complete", reason="", nodes=5, solutions=0, best=None, best_cost=0
    )


def spans(found: list[Entry]) -> dict[tuple[int, int], list[tuple[str, float, float]]]:
    """Gives each lane's spans, in microseconds."""
    lanes = defaultdict(list)
    for entry in found:
        if entry["ph"] == "X":
            lanes[entry["pid"], entry["tid"]].append((entry["name"], entry["ts"], entry["dur"]))
    return lanes


def traced(path: Path, *events: Any) -> list[Entry]:
    trace = ChromeTrace(path)
    for event in events:
        trace(event)
    trace.close()
    return entries(path)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_search(tmp_path: Path, workers: int) -> None:
    """The trace of a search holds its start, its end, and every worker's work by name."""
    path = tmp_path / "trace.json"
    solve(Queens(7), workers=workers, on=ChromeTrace(path))
    found = entries(path)
    names = {entry["name"] for entry in found}
    assert {"started", "finished", "joined", "assigned", "improved", "explore"} <= names
    named = {entry["args"]["name"] for entry in found if entry["name"] == "thread_name"}
    assert {"search", *(f"worker {seat}" for seat in range(workers or 1))} <= named
    assert list(tmp_path.glob("trace*")) == [path]


def test_spans_never_overlap(tmp_path: Path) -> None:
    """On every lane of a search with checks, a span ends before the next one begins."""
    path = tmp_path / "trace.json"
    solve(Superopt("P1", 2, tests=1), workers=2, cache=None, on=ChromeTrace(path))
    lanes = spans(entries(path))
    assert any(group == WORKERS for group, _ in lanes)
    assert any(group == Z3 for group, _ in lanes)
    for lane in lanes.values():
        for (_, start, length), (_, after, _) in pairwise(lane):
            assert start + length <= after + 0.2  # it is rounded


def test_work_and_waiting(tmp_path: Path) -> None:
    """A report becomes a span of work that ends with it, and a span of waiting before that."""
    found = traced(tmp_path / "t", report(1, 2.0, 0.5, 0.25), report(1, 3.0, 0.25))
    assert spans(found) == {
        (WORKERS, 1): [
            ("wait for z3", 1_250_000, 250_000),
            ("explore", 1_500_000, 500_000),
            ("explore", 2_750_000, 250_000),
        ]
    }


def test_clocks_that_differ(tmp_path: Path) -> None:
    """Work that seems to begin before the last report's end, or before the search, is cut."""
    found = traced(tmp_path / "t", report(0, 1.0, 1.5), report(0, 2.0, 1.5), report(0, 2.0, 0.1))
    assert spans(found) == {
        (WORKERS, 0): [("explore", 0, 1_000_000), ("explore", 1_000_000, 1_000_000)]
    }


def test_checks(tmp_path: Path) -> None:
    """Each z3 process has a lane of the checks that it answered."""
    check = Checked(seconds=1.5, process=3, status="proved", started=1.0)
    found = traced(tmp_path / "t", check)
    [entry] = [entry for entry in found if entry["ph"] == "X"]
    assert (entry["pid"], entry["tid"], entry["args"]["status"]) == (Z3, 3, "proved")


def test_counters(tmp_path: Path) -> None:
    """Progress becomes counters."""
    progress = Progress(
        seconds=1.0,
        nodes=5,
        nodes_per_second=7.5,
        open=3,
        solutions=0,
        best_cost=4.0,
        explored=None,
        remaining=None,
        cache_hits=0,
        checks=0,
        checks_in_flight=0,
        workers=1,
        refused={},
    )
    found = traced(tmp_path / "t", progress)
    counters = {entry["name"]: entry["args"]["value"] for entry in found if entry["ph"] == "C"}
    assert counters == {"nodes/s": 7.5, "open subtrees": 3, "best cost": 4.0}


def test_instants(tmp_path: Path) -> None:
    """Improvements and deaths are marked on their worker's lane, long solutions cut short."""
    found = traced(
        tmp_path / "t",
        SearchStarted(
            seconds=0.0, problem="P", order="O", strategy="S", workers=1, seed=0, resumed=False
        ),
        WorkerJoined(seconds=0.1, worker=1, pid=77),
        Improved(seconds=0.2, number=1, solution=b"x" * 10_000, cost=2.0, worker=1),
        WorkerLost(seconds=0.3, worker=1, reason="signal 9"),
        Warned(seconds=0.4, message="mind"),
    )
    marks = {entry["name"]: entry for entry in found if entry["ph"] == "i"}
    assert marks["joined"]["args"]["pid"] == 77
    assert marks["lost"]["args"]["reason"] == "signal 9"
    assert (marks["lost"]["pid"], marks["lost"]["tid"]) == (WORKERS, 1)
    assert marks["warning"]["pid"] == SEARCH
    assert len(marks["improved"]["args"]["solution"]) < 300


def test_the_file_appears_at_the_end(tmp_path: Path) -> None:
    """The file is there, whole, when the search has finished, and not earlier."""
    path = tmp_path / "t"
    path.write_text(OLD)
    trace = ChromeTrace(path)
    trace(report(0, 1.0, 0.5))
    assert path.read_text() == OLD
    trace(finish())
    assert entries(path)
    trace(report(0, 2.0, 0.5))
    trace.close()
    assert spans(entries(path)) == {(WORKERS, 0): [("explore", 500_000, 500_000)]}


def test_a_search_that_is_left(tmp_path: Path) -> None:
    """`with` closes the trace of a search that did not finish."""
    with ChromeTrace(tmp_path / "t") as trace:
        trace(report(0, 1.0, 0.5))
    assert spans(entries(tmp_path / "t"))


def test_a_search_that_never_begins(tmp_path: Path) -> None:
    """A trace of nothing does not take the place of an older one."""
    (tmp_path / "t").write_text(OLD)
    with ChromeTrace(tmp_path / "t"):
        pass
    assert [path.read_text() for path in tmp_path.iterdir()] == [OLD]


def test_a_trace_that_is_never_used(tmp_path: Path) -> None:
    """A trace that hears of nothing writes nothing."""
    ChromeTrace(tmp_path / "t").close()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A wrong path is told at once by `with`, and in the first event without it."""
    path = tmp_path / "no" / "where"
    with pytest.raises(AiosearchError, match=r"cannot write the trace .*No such file"):
        ChromeTrace(path).__enter__()
    trace = ChromeTrace(path)
    with pytest.raises(AiosearchError, match="cannot write the trace"):
        trace(finish())
    trace(finish())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk(tmp_path: Path) -> None:
    """When the disk is full, the trace ends with one error and leaves nothing behind."""
    path = tmp_path / "t"
    (tmp_path / "t.tmp").symlink_to("/dev/full")
    trace = ChromeTrace(path)
    events = (report(0, float(number), 0.5) for number in range(10_000))
    with pytest.raises(AiosearchError, match="No space left"):
        deque(map(trace, events), maxlen=0)
    trace(finish())
    assert list(tmp_path.iterdir()) == []


async def test_a_failing_trace_does_not_stop_the_search(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A search goes on without its trace, and the log says why."""
    trace = ChromeTrace(tmp_path / "no" / "where")
    async with Search(Queens(5), workers=0, on=trace) as search:
        result = await search.wait()
    assert (len(result.solutions), result.statistics.hook_errors) == (10, 1)
    assert "cannot write the trace" in caplog.text


def test_what_is_no_trace_is_not_replaced(tmp_path: Path) -> None:
    """A file that somebody may miss, or a device, is refused."""
    path = tmp_path / "precious"
    path.write_text("precious")
    with pytest.raises(AiosearchError, match="is no trace"), ChromeTrace(path):
        pass
    assert path.read_text() == "precious"
    with pytest.raises(AiosearchError, match="is no trace"), ChromeTrace(tmp_path):
        pass
