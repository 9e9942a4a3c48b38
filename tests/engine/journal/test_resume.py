"""What a journal holds survives kill -9 of the whole process group."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from trees import Endless, Judged, Keyed, Misleading, Priced, Words

from aiosearch import JournalError, Limits, ProblemError, Search, SearchStatus
from aiosearch.events import AnyEvent, Warned

RUNNER = """
import asyncio, sys
from aiosearch import Search
from aiosearch.engine import journal, run
from trees import Words

run.REPORT_SECONDS = 0.02

async def main():
    options = dict(workers=2, journal=sys.argv[1], resume=sys.argv[2] == "resume")
    async with Search(Words(letters=4, length=9), **options) as search:
        print("running", flush=True)
        await search.wait()

if __name__ == "__main__":
    asyncio.run(main())
"""


async def run(problem: Any, **options: Any) -> Any:
    async with Search(problem, **options) as search:
        return await search.wait()


@pytest.mark.parametrize("workers", [0, 2])
async def test_a_search_goes_on_where_a_limit_ended_it(tmp_path: Path, workers: int) -> None:
    """Counts and solutions of both parts add up to those of one run."""
    journal = tmp_path / "j"
    problem = Words(letters=3, length=8)
    first = await run(problem, workers=workers, journal=journal, limits=Limits(nodes=4000))
    assert first.status is SearchStatus.LIMIT
    result = await run(problem, workers=workers, journal=journal, resume=True)
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.nodes == problem.nodes
    assert result.statistics.depth == 8
    assert len(result.solutions) == len(set(result.solutions)) == 3**8


async def test_resuming_a_finished_search_gives_its_result_again(tmp_path: Path) -> None:
    """There is nothing left to do, and everything found is there."""
    journal = tmp_path / "j"
    await run(Words(), workers=1, journal=journal)
    result = await run(Words(), workers=1, journal=journal, resume=True)
    assert result.status is SearchStatus.COMPLETE
    assert len(result.solutions) == 3**6


@pytest.mark.parametrize("order", ["depth-first", "breadth-first", "best-first"])
async def test_keys_are_remembered(tmp_path: Path, order: str) -> None:
    """Distinct nodes stay distinct across runs."""
    journal = tmp_path / "j"
    problem = Keyed(seed=11, depth=12, widest=4, cycle=200)
    whole = await run(problem, workers=1)
    for nodes in (100, 300):
        resume = nodes > 100
        limits = Limits(nodes=nodes)
        options = {"journal": journal, "resume": resume, "order": order}
        await run(problem, workers=2, limits=limits, **options)
    result = await run(problem, workers=2, journal=journal, resume=True, order=order)
    assert result.statistics.nodes == whole.statistics.nodes
    assert set(result.solutions) == set(whole.solutions)


async def test_the_best_solution_prunes_from_the_start(tmp_path: Path) -> None:
    """A resumed branch and bound knows the cost to beat."""
    journal = tmp_path / "j"
    problem = Priced(seed=3, depth=9)
    await run(problem, workers=1, journal=journal, limits=Limits(nodes=60))
    result = await run(problem, workers=1, journal=journal, resume=True)
    assert result.best_cost == (await run(problem, workers=0)).best_cost


async def test_parked_nodes_are_not_lost(tmp_path: Path) -> None:
    """A node that waits for z3 when the search stops is explored after resuming."""
    journal = tmp_path / "j"
    problem = Judged(length=5)
    whole = await run(problem, workers=0)
    await run(problem, workers=2, journal=journal, limits=Limits(nodes=20), cache=None)
    result = await run(problem, workers=2, journal=journal, resume=True, cache=None)
    assert result.statistics.nodes == whole.statistics.nodes
    assert set(result.solutions) == set(whole.solutions)


async def test_kill_9_of_everything(tmp_path: Path) -> None:
    """However often the group is killed, nothing is lost or doubled in the end."""
    journal = tmp_path / "j"
    script = tmp_path / "runner.py"
    script.write_text(RUNNER)
    support = Path(__file__).parents[2] / "support"
    path = os.pathsep.join(map(str, [support, *filter(None, sys.path)]))
    for number in range(4):
        process = subprocess.Popen(  # noqa: ASYNC220  # the test has nothing else to do
            [sys.executable, str(script), str(journal), "resume" if number else "new"],
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        size = journal.stat().st_size
        while process.poll() is None and journal.stat().st_size < size + 20_000:
            pass
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
        process.stdout.close()
    result = await run(Words(letters=4, length=9), workers=2, journal=journal, resume=True)
    assert result.status is SearchStatus.COMPLETE
    assert result.statistics.nodes == Words(letters=4, length=9).nodes
    assert len(result.solutions) == 4**9


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (Words(letters=3, length=7), "length=7"),
        (Endless(), "trees:Endless"),
    ],
)
async def test_a_journal_of_another_problem_is_refused(
    tmp_path: Path, other: Any, shown: str
) -> None:
    """Both problems are shown."""
    journal = tmp_path / "j"
    await run(Words(), workers=0, journal=journal)
    with pytest.raises(JournalError) as caught:
        await run(other, workers=0, journal=journal, resume=True)
    assert shown in str(caught.value)
    assert "Words" in str(caught.value)


async def test_a_journal_is_never_overwritten(tmp_path: Path) -> None:
    """A second search on the same file is told to resume."""
    journal = tmp_path / "j"
    await run(Words(), workers=0, journal=journal)
    before = journal.read_bytes()
    with pytest.raises(JournalError, match="--resume"):
        await run(Words(), workers=0, journal=journal)
    assert journal.read_bytes() == before


async def test_a_torn_tail_is_cut_with_a_warning(tmp_path: Path) -> None:
    """A line that a crash cut in two is told of and left out."""
    journal = tmp_path / "j"
    await run(Words(), workers=0, journal=journal, limits=Limits(nodes=300))
    with journal.open("ab") as file:
        file.write(b"1234abcd {half a rec")
    heard: list[AnyEvent] = []
    result = await run(Words(), workers=0, journal=journal, resume=True, on=heard.append)
    assert result.statistics.nodes == Words().nodes
    assert any(isinstance(event, Warned) and "torn" in event.message for event in heard)


async def test_a_missing_journal_cannot_be_resumed(tmp_path: Path) -> None:
    """The message names the file."""
    with pytest.raises(JournalError, match="nowhere"):
        await run(Words(), workers=0, journal=tmp_path / "nowhere", resume=True)


async def test_another_order_scores_anew(tmp_path: Path) -> None:
    """A journal of a best-first search holds priorities; they are no bounds to prune by."""
    journal = tmp_path / "j"
    limits = Limits(nodes=50)
    await run(Misleading(), workers=1, order="best-first", journal=journal, limits=limits)
    result = await run(
        Misleading(), workers=1, order="branch-and-bound", journal=journal, resume=True
    )
    assert result.best_cost == 100 - 2 * 6


def test_a_device_is_no_place_for_a_journal(tmp_path: Path) -> None:
    """A rename would put an ordinary file in its place."""
    device = tmp_path / "pipe"
    os.mkfifo(device)
    with pytest.raises(JournalError, match="no ordinary file"):
        asyncio.run(run(Words(), workers=0, journal=device))
    assert device.is_fifo()


class Client:
    """What a later run cannot compare: nothing says what it is but its address."""


class Crawl:
    """A walk over numbers below 50 through a client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def root(self) -> int:
        return 1

    def expand(self, node: int) -> list[int]:
        return [child for child in (2 * node, 2 * node + 1) if child < 50]

    def solutions(self, node: int) -> list[int]:
        return [node] if node % 7 == 0 else []


class PrivateCrawl(Crawl):
    """The client where nobody looks for parameters."""

    def __init__(self, client: Client) -> None:
        self._client = client


@dataclass(frozen=True)
class FieldCrawl(Crawl):
    """The client in a field that does not count."""

    client: Client = field(compare=False)
    seed: int = 0


async def test_a_problem_that_could_not_be_resumed_is_refused_at_the_start(tmp_path: Path) -> None:
    """An address in memory is another in every run, so a journal with one is worth nothing."""
    journal = tmp_path / "j"
    with pytest.raises(ProblemError, match="whether its client is that of this one") as caught:
        await run(Crawl(Client()), workers=0, journal=journal)
    assert "_client" in str(caught.value)
    assert not journal.exists()


@pytest.mark.parametrize("kind", [PrivateCrawl, FieldCrawl])
async def test_a_client_that_is_no_parameter_may_be_another_after_a_crash(
    tmp_path: Path, kind: Callable[[Client], Crawl]
) -> None:
    journal = tmp_path / "j"
    await run(kind(Client()), workers=0, journal=journal, limits=Limits(nodes=20))
    result = await run(kind(Client()), workers=0, journal=journal, resume=True)
    assert result.status is SearchStatus.COMPLETE
    assert sorted(result.solutions) == [7, 14, 21, 28, 35, 42, 49]
