"""What every transport promises of its links, and has for the asking."""

from __future__ import annotations

import asyncio

import pytest

from aiosearch.remote.links import Delivery, LostError


async def test_messages_come_in_order_and_the_end_is_told_once() -> None:
    heard: list[bytes] = []
    reasons: asyncio.Queue[str] = asyncio.Queue()
    delivery = Delivery("there")
    assert delivery.open(heard.append, reasons.put_nowait)
    delivery.deliver([b"1", b"2"])
    assert delivery.end("enough")
    assert not delivery.end("more than enough")
    delivery.deliver([b"3"])
    assert await reasons.get() == "enough"
    assert reasons.empty()
    assert heard == [b"1", b"2"]


async def test_a_link_that_ended_before_it_was_opened_says_so() -> None:
    reasons: asyncio.Queue[str] = asyncio.Queue()
    delivery = Delivery("there")
    delivery.end("too late")
    assert not delivery.open(pytest.fail, reasons.put_nowait)
    assert await reasons.get() == "too late"


async def test_what_comes_after_a_message_that_ends_the_link_is_heard_by_nobody() -> None:
    heard: list[bytes] = []
    delivery = Delivery("there")

    def hear(payload: bytes) -> None:
        heard.append(payload)
        delivery.end("that was it")

    delivery.open(hear, lambda reason: None)
    delivery.deliver([b"1", b"2"])
    assert heard == [b"1"]


async def test_a_message_that_cannot_be_taken_is_the_end_of_its_link() -> None:
    delivery = Delivery("there")
    delivery.open(lambda payload: 1 // 0, lambda reason: None)
    with pytest.raises(LostError, match="a message of there failed: ZeroDivisionError"):
        delivery.deliver([b"1"])
