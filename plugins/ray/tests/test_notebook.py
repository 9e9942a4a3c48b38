"""The search's side of the named actor, to one that lives in this process and dies as told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiosearch_ray import notebook
from aiosearch_ray.cluster import Cluster
from aiosearch_ray.notebook import RayNotebook
from aiosearch_ray.notes import Notes, encode

from aiosearch import AiosearchError
from aiosearch.checks import Status, Verdict
from aiosearch.remote.links import LostError
from aiosearch.remote.notebooks import PART, Known, Standing
from aiosearch.testing import no_leaks

PROVED = Verdict(Status.PROVED)
STANDING = Standing("Queens", 3, None, b"\x90")


def known(count: int) -> list[Known]:
    return [(number.to_bytes(16, "big"), PROVED) for number in range(count)]


class Near:
    """An actor whose calls fail once it is dead, or last until the test lets them end."""

    def __init__(self) -> None:
        self.actor = Notes()
        self.dead = False
        self.writes: list[int] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def write(self, verdicts: bytes, standings: bytes) -> None:
        await self.answers.wait()
        self._check()
        self.writes.append(len(verdicts))
        self.actor.write(verdicts, standings)

    async def read(self, start: int) -> bytes:
        await self.answers.wait()
        self._check()
        return self.actor.read(start)

    def _check(self) -> None:
        if self.dead:
            raise LostError("it died")


class Here(Cluster):
    """A cluster of this process."""

    def __init__(self) -> None:
        super().__init__(None)
        self.made: list[Near] = []
        self.asked: list[tuple[str, bool]] = []

    async def notes(self, name: str, keep: bool) -> Any:
        self.asked.append((name, keep))
        if not self.made or self.made[-1].dead:
            self.made.append(Near())
        return self.made[-1]

    async def kill(self, actor: Any) -> None:
        actor.dead = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "GATHER_SECONDS", 0.001)
    monkeypatch.setattr(notebook, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(notebook, "SHORTEST", 0.001)


@asynccontextmanager
async def opened(cluster: Here, keep: str | None = None) -> AsyncIterator[RayNotebook]:
    async with no_leaks():
        pages = RayNotebook(cluster, keep)
        await pages.open()
        try:
            yield pages
        finally:
            await pages.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0)


def note(pages: RayNotebook, verdicts: list[Known]) -> None:
    for digest, verdict in verdicts:
        pages.judged(digest, verdict)


def count(near: Near) -> int:
    verdicts: int = near.actor.standing()["verdicts"]
    return verdicts


async def test_what_comes_while_one_call_is_under_way_travels_together_in_parts() -> None:
    cluster = Here()
    async with opened(cluster) as pages:
        [near] = cluster.made
        near.answers.clear()
        note(pages, known(PART + 10))
        pages.stands(1, STANDING)
        near.answers.set()
        await until(lambda: count(near) == PART + 10)
        assert len([size for size in near.writes if size > 1]) == 2
        [name] = near.actor.standing()["searches"]
        assert name.endswith("-1")


@pytest.mark.parametrize("news", [True, False])
async def test_one_that_dies_is_followed_by_one_that_knows_all_of_it(
    caplog: pytest.LogCaptureFixture, news: bool
) -> None:
    """Also where nothing is to be written; and one warning is enough."""
    cluster = Here()
    async with opened(cluster) as pages:
        note(pages, known(2 * PART))
        pages.stands(1, STANDING)
        await until(lambda: count(cluster.made[0]) == 2 * PART)
        for died in range(3):
            cluster.made[died].dead = True
            if news:
                note(pages, [(b"%016d" % died, PROVED)])
            await until(lambda: len(cluster.made) == died + 2)  # noqa: B023
            expected = 2 * PART + (died + 1) * news
            await until(lambda: count(cluster.made[-1]) == expected)  # noqa: B023
            assert len(cluster.made[-1].actor.standing()["searches"]) == 1
    [warned] = caplog.messages
    assert warned == f"the actor {pages.name} is lost: it died; another takes its place"


async def test_one_that_is_not_kept_ends_with_its_listener_and_has_a_name_of_its_own() -> None:
    cluster = Here()
    async with opened(cluster) as one, opened(cluster) as other:
        assert one.name.startswith("aiosearch-")
        assert one.name != other.name
    assert cluster.made[0].dead
    assert cluster.asked == [(one.name, False), (other.name, False)]


async def test_one_that_is_kept_knows_everything_in_the_end_and_tells_the_next_search() -> None:
    cluster = Here()
    for number in range(2):
        async with opened(cluster, "mine") as pages:
            assert list(pages.known()) == known(PART + 1) * number
            note(pages, known(PART + 1))
            pages.stands(1, STANDING)
    [near] = cluster.made
    assert (near.dead, count(near)) == (False, PART + 1)
    assert len(near.actor.standing()["searches"]) == 2
    assert cluster.asked == [("mine", True)] * 2


async def test_what_a_kept_one_told_is_told_to_the_one_that_takes_its_place() -> None:
    cluster = Here()
    cluster.made.append(Near())
    cluster.made[0].actor.write(encode(known(5)), encode({}))
    async with opened(cluster, "mine"):
        cluster.made[0].dead = True
        await until(lambda: len(cluster.made) == 2 and count(cluster.made[1]) == 5)


async def test_a_kept_one_that_is_dead_in_the_end_is_followed_by_another() -> None:
    cluster = Here()
    async with opened(cluster, "mine") as pages:
        note(pages, known(PART + 1))
        await until(lambda: count(cluster.made[0]) == PART + 1)
        cluster.made[0].dead = True
    assert count(cluster.made[1]) == PART + 1


async def test_a_kept_one_that_does_not_answer_in_the_end_is_not_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "LINGER_SECONDS", 0.01)
    cluster = Here()
    async with opened(cluster, "mine") as pages:
        cluster.made[0].answers.clear()
        note(pages, known(1))
    assert caplog.messages == ["the actor mine does not know everything: it does not answer"]


@pytest.mark.parametrize("wrong", ["nonsense", "silent"])
async def test_a_kept_one_that_is_no_use_is_an_error(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "PATIENCE", 0.01)
    cluster = Here()
    cluster.made.append(near := Near())
    if wrong == "nonsense":
        monkeypatch.setattr(near.actor, "read", lambda start: b"nonsense")
    else:
        near.answers.clear()
    async with no_leaks():
        with pytest.raises(AiosearchError, match="'mine' cannot name a search's actor"):
            await RayNotebook(cluster, "mine").open()
