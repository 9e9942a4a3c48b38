"""What is put while one call is under way goes with the next."""

from __future__ import annotations

import asyncio

import pytest
from aiosearch_ray import outbox
from aiosearch_ray.outbox import Outbox


async def test_what_waits_is_taken_together_and_in_order() -> None:
    box = Outbox()
    for number in range(3):
        box.put(bytes([number]))
    assert await box.take() == [b"\0", b"\1", b"\2"]


async def test_who_takes_waits_for_something() -> None:
    box = Outbox()
    taking = asyncio.create_task(box.take())
    await asyncio.sleep(0)
    assert not taking.done()
    box.put(b"something")
    assert await taking == [b"something"]


async def test_what_was_put_before_it_closed_may_be_taken_and_then_there_is_nothing() -> None:
    box = Outbox()
    box.put(b"before")
    box.close()
    box.put(b"after")
    assert await box.take() == [b"before"]
    assert await box.take() == []
    assert await box.take() == []


async def test_there_is_no_room_for_more_than_anybody_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "MOST_WAITING", 10)
    box = Outbox()
    assert box.put(bytes(11))
    assert not box.put(b"one more")
    await box.take()
    assert box.put(b"one more")
