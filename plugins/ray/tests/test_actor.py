"""A host actor in this process: it speaks when it is asked to, and ends with its link."""

from __future__ import annotations

import asyncio

from aiosearch_ray.actor import HostActor

from aiosearch.remote.protocol import Farewell, HostGreeting, decode_from_agent, encode
from aiosearch.testing import no_leaks


async def begun() -> HostActor:
    actor = HostActor(3, "a node", "notes")
    [first] = await actor.collect()
    here = decode_from_agent(first)
    assert isinstance(here, HostGreeting)
    assert (here.name, here.workers) == ("a node", 3)
    return actor


async def test_it_says_first_what_it_is_and_ends_when_it_is_let_go() -> None:
    async with no_leaks():
        actor = await begun()
        await actor.deliver([encode(Farewell("over"))])
        assert await actor.collect() == []
        await asyncio.sleep(0)


async def test_one_that_is_refused_ends_as_well() -> None:
    async with no_leaks():
        actor = await begun()
        await actor.deliver([encode(Farewell("another version", refused=True))])
        assert await actor.collect() == []
        await asyncio.sleep(0)


async def test_a_message_that_makes_no_sense_ends_it_and_what_follows_is_not_read() -> None:
    async with no_leaks():
        actor = await begun()
        await actor.deliver([b"nonsense", encode(Farewell("over"))])
        assert await actor.collect() == []
        await asyncio.sleep(0)
