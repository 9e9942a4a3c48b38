from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiosearch.engine.explore.claims import Claim, SharedClaims
from aiosearch.remote.agent import KEYS_BYTES, KeyTables

KEYS = b"".join(number.to_bytes(16, "little") for number in range(1, KEYS_BYTES // 4))


@pytest.fixture
def tables() -> Iterator[KeyTables]:
    made = KeyTables(lambda session: None)
    yield made
    made.close()


def claims(path: str) -> set[Claim]:
    """What becomes of the keys when a worker claims them."""
    table = SharedClaims.attach(path, 1)
    found = {table.claim(KEYS[start : start + 16]) for start in range(0, len(KEYS), 16)}
    table.close()
    return found


async def test_keys_that_were_learnt_are_explored_already(tables: KeyTables) -> None:
    path = tables.path(7, 1)
    assert await tables.learn(7, KEYS)
    assert claims(path) == {Claim.DUPLICATE}


async def test_a_table_that_is_gone_learns_nothing(tables: KeyTables) -> None:
    tables.path(7, 1)
    tables.leave(7, 1)
    assert not await tables.learn(7, KEYS)
    assert claims(tables.path(7, 2)) == {Claim.NEW}


def test_a_table_is_told_of_each_time_that_it_is_made() -> None:
    told: list[int] = []
    tables = KeyTables(told.append)
    for channel in (1, 2):
        tables.path(7, channel)
    for channel in (1, 2):
        tables.leave(7, channel)
    tables.path(7, 3)
    tables.close()
    assert told == [7, 7]
