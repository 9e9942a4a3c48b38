"""The search's end of a link, to an actor that lives in this process."""

from __future__ import annotations

import asyncio

from aiosearch_ray.link import RayLink
from aiosearch_ray.outbox import Outbox

from aiosearch.remote.links import LostError
from aiosearch.testing import no_leaks


class Here:
    """An actor whose calls last until the test lets them end."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.says = Outbox()
        self.takes = asyncio.Event()
        self.takes.set()
        self.dead = False

    async def collect(self) -> list[bytes]:
        batch = await self.says.take()
        if self.dead:
            raise LostError("it died")
        return batch

    async def deliver(self, batch: list[bytes]) -> None:
        self.batches.append(batch)
        await self.takes.wait()

    def die(self) -> None:
        self.dead = True
        self.says.close()


class Search:
    """Opens a link, and hears what comes."""

    def __init__(self, link: RayLink) -> None:
        self.heard: list[bytes] = []
        self.ends: list[str] = []
        link.open(self._received, self.ends.append)

    def _received(self, payload: bytes) -> None:
        if payload == b"wrong":
            raise ValueError("no such message")
        self.heard.append(payload)


def linked(*early: bytes) -> tuple[Here, RayLink]:
    actor = Here()
    return actor, RayLink(actor, "a node", list(early) or [b"first"])


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_messages_arrive_in_order_and_those_that_came_early_first() -> None:
    async with no_leaks():
        actor, link = linked(b"1", b"2")
        for payload in (b"3", b"4"):
            actor.says.put(payload)
        search = Search(link)
        await turns()
        assert search.heard == [b"1", b"2", b"3", b"4"]
        await link.finish()


async def test_what_is_sent_while_a_call_is_under_way_travels_together() -> None:
    async with no_leaks():
        actor, link = linked()
        actor.takes.clear()
        link.send(b"1")
        await turns()
        for payload in (b"2", b"3", b"4"):
            link.send(payload)
        actor.takes.set()
        await turns()
        assert actor.batches == [[b"1"], [b"2", b"3", b"4"]]
        await link.finish()


async def test_what_was_sent_before_it_closed_goes_out() -> None:
    async with no_leaks():
        actor, link = linked()
        link.send(b"farewell")
        link.close("over")
        link.send(b"too late")
        await link.finish()
        assert actor.batches == [[b"farewell"]]


async def test_an_actor_that_dies_closes_it_once_and_says_how() -> None:
    async with no_leaks():
        actor, link = linked()
        search = Search(link)
        actor.die()
        await link.wait_ended()
        link.close("again")
        await link.finish()
        assert search.ends == ["it died"]


async def test_an_actor_that_ends_closes_it() -> None:
    async with no_leaks():
        actor, link = linked()
        search = Search(link)
        actor.says.put(b"last words")
        actor.says.close()
        await link.wait_ended()
        await link.finish()
        assert search.heard == [b"first", b"last words"]
        assert search.ends == ["a node closed the link"]


async def test_a_message_that_fails_closes_it_and_the_next_is_not_heard() -> None:
    async with no_leaks():
        _, link = linked(b"right", b"wrong", b"later")
        search = Search(link)
        await link.wait_ended()
        await link.finish()
        assert search.heard == [b"right"]
        assert search.ends == ["a message of a node failed: ValueError: no such message"]


async def test_one_that_closed_before_it_was_opened_says_so() -> None:
    async with no_leaks():
        _, link = linked()
        link.close("changed its mind")
        search = Search(link)
        await link.finish()
        assert (search.heard, search.ends) == ([], ["changed its mind"])
