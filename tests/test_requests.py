"""Rates and attempts of requests, on clocks that the tests set."""

from __future__ import annotations

import asyncio

import pytest

from aiosearch import AiosearchError, RateLimit, retry


class BusyError(Exception):
    """A server that says when to come again."""

    retry_after = 0.0


def test_places_are_given_at_the_rate_after_a_burst() -> None:
    now = 100.0
    limit = RateLimit(10, burst=3, clock=lambda: now)
    assert [limit.reserve() for _ in range(5)] == pytest.approx([0.0, 0.0, 0.0, 0.1, 0.2])
    now = 100.25
    assert limit.reserve() == pytest.approx(0.05)
    now = 200.0
    assert [limit.reserve() for _ in range(4)] == pytest.approx([0.0, 0.0, 0.0, 0.1])


async def test_who_enters_has_waited_for_its_place() -> None:
    """Every entry takes a place: after three at 1,000 a second the fourth is due 3 ms later."""
    limit = RateLimit(1000)
    begin = asyncio.get_running_loop().time()
    for _ in range(4):
        async with limit:
            pass
    assert asyncio.get_running_loop().time() - begin >= 0.0029


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-1, 1), (float("inf"), 1), ("9", 1), (1, 0)])
def test_a_limit_that_cannot_be_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(AiosearchError, match="RateLimit takes"):
        RateLimit(rate, burst=burst)


async def test_what_fails_for_a_while_is_tried_again() -> None:
    calls = 0

    @retry(BusyError, attempts=4)
    async def load(page: str) -> str:
        nonlocal calls
        calls += 1
        if calls < 3:
            raise BusyError
        return page

    assert (await load("home"), calls) == ("home", 3)


async def test_the_last_error_is_raised_and_says_how_often_it_was_tried() -> None:
    calls = 0

    @retry(BusyError, attempts=3)
    async def load() -> None:
        nonlocal calls
        calls += 1
        raise BusyError

    with pytest.raises(BusyError) as raised:
        await load()
    assert (calls, raised.value.__notes__) == (3, ["tried 3 times"])


async def test_other_errors_end_it_at_once() -> None:
    calls = 0

    @retry(BusyError)
    async def load() -> None:
        nonlocal calls
        calls += 1
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011  # it has no text
        await load()
    assert calls == 1


@pytest.mark.parametrize("attempts", [0, 1.5])
def test_attempts_that_cannot_be_are_refused(attempts: int) -> None:
    with pytest.raises(AiosearchError, match="attempts"):
        retry(BusyError, attempts=attempts)


def test_errors_have_to_be_named() -> None:
    with pytest.raises(AiosearchError, match="@retry"):
        retry()
