"""What searches find is noted outside of them too, and what is known from there is not asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest
from testkit.hosts.in_process_links import PairListener
from testkit.hosts.in_process_machines import Machine, explored, pool

from aiosearch.checks import Status, Verdict
from aiosearch.engine.wire.messages import VerdictReplies, encode
from aiosearch.processes.frames import MAX_FRAME
from aiosearch.remote.notebooks import PART, Known, Standing, Verdicts
from aiosearch.workloads import Lopsided, Superopt

PROBLEM = Superopt(task="P2", length=3)
QUESTIONS = 136


class Pages:
    """A notebook in this process."""

    def __init__(self, known: Iterable[Known] = ()) -> None:
        self.before = dict(known)
        self.verdicts: dict[bytes, Verdict] = {}
        self.standings: dict[int, list[Standing]] = {}

    def known(self) -> Iterable[Known]:
        return self.before.items()

    def judged(self, digest: bytes, verdict: Verdict) -> None:
        assert digest not in self.verdicts
        self.verdicts[digest] = verdict

    def stands(self, session: int, standing: Standing) -> None:
        self.standings.setdefault(session, []).append(standing)

    async def recall(self) -> AsyncIterator[Verdicts]:
        told = [(digest, str(verdict.status)) for digest, verdict in self.verdicts.items()]
        yield tuple(told[:100])
        yield tuple(told[100:])


class NotingListener(PairListener):
    def __init__(self, notebook: Pages) -> None:
        super().__init__()
        self.notebook = notebook


async def noted(pages: Pages, problem: Any = PROBLEM) -> Any:
    async with pool(listener=NotingListener(pages)) as (opened, listener):
        Machine(listener)
        return await explored(opened, problem)


async def test_every_verdict_is_noted_once() -> None:
    pages = Pages()
    result = await noted(pages)
    statuses = [verdict.status for verdict in pages.verdicts.values()]
    checks = result.statistics.checks
    assert len(statuses) == checks.checks == QUESTIONS
    assert statuses.count(Status.PROVED) == checks.proved


async def test_verdicts_that_were_noted_before_are_not_asked_of_z3() -> None:
    before, pages = Pages(), Pages()
    alone = await noted(before)
    pages.before = before.verdicts
    result = await noted(pages)
    assert result.statistics.checks.checks == 0
    assert result.statistics.checks.memory_hits == QUESTIONS
    assert not pages.verdicts
    assert sorted(map(repr, result.solutions)) == sorted(map(repr, alone.solutions))


async def test_it_is_noted_how_each_search_stands_from_its_beginning_to_its_last_solution() -> None:
    pages = Pages()
    tree = Lopsided(height=24)
    async with pool(listener=NotingListener(pages)) as (opened, listener):
        Machine(listener)
        first, second = [await explored(opened, tree) for _ in range(2)]
    assert pages.standings.keys() == {1, 2}
    for result, standings in zip((first, second), pages.standings.values(), strict=True):
        assert standings[0] == Standing("Lopsided", 0, None, None)
        last = standings[-1]
        assert (last.problem, last.solutions) == ("Lopsided", len(result.solutions))
        assert last.best is not None
        assert msgspec.msgpack.decode(last.best) == result.best


@pytest.mark.parametrize(("workers", "strategy"), [(1, "queue"), (2, "queue"), (2, "stealing")])
async def test_a_machine_that_recalls_verdicts_does_not_ask_the_search(
    workers: int, strategy: str
) -> None:
    """But for what it meets before it has read them; over a board, or each worker by itself."""
    pages = Pages()
    await noted(pages)
    async with pool() as (opened, listener):
        Machine(listener, workers, recall=pages.recall)
        result = await explored(opened, PROBLEM, strategy=strategy)
    assert result.statistics.checks.asked < QUESTIONS // 2
    assert len(result.solutions) == result.statistics.proved


def test_a_part_of_the_verdicts_fits_a_frame_whatever_they_are() -> None:
    verdicts = tuple((bytes(16), str(max(Status, key=len))) for _ in range(PART))
    assert len(encode(VerdictReplies(1 << 62, verdicts))) < MAX_FRAME
