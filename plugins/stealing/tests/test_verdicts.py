from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import sha256

import pytest
from aiosearch_stealing.board import SharedBoard
from aiosearch_stealing.layout import VERDICTS
from aiosearch_stealing.verdicts import WINDOW, Verdicts

HOMES = VERDICTS - WINDOW


@pytest.fixture
def verdicts() -> Iterator[Verdicts]:
    board = SharedBoard.create(1)
    yield board.verdicts
    board.close()


def digest(first: int, second: int) -> bytes:
    return struct.pack("=QQ", first, second)


def test_what_was_told_is_known_and_nothing_else(verdicts: Verdicts) -> None:
    told = {sha256(bytes([number])).digest(): "proved" for number in range(100)}
    told |= {sha256(bytes([number])).digest(): "refuted" for number in range(100, 200)}
    for one, status in told.items():
        verdicts.add(one, status)
    assert {one: verdicts.find(one) for one in told} == told
    assert verdicts.find(sha256(b"another").digest()) == ""


@pytest.mark.parametrize("status", ["unknown", "", "maybe"])
def test_what_is_no_answer_is_not_noted(verdicts: Verdicts, status: str) -> None:
    verdicts.add(digest(1, 1), status)
    assert verdicts.find(digest(1, 1)) == ""
    verdicts.add(digest(1, 1), "proved")
    assert verdicts.find(digest(1, 1)) == "proved"


def test_the_first_answer_stays(verdicts: Verdicts) -> None:
    verdicts.add(digest(1, 1), "proved")
    verdicts.add(digest(1, 1), "refuted")
    assert verdicts.find(digest(1, 1)) == "proved"


def test_digests_of_one_window_are_told_apart(verdicts: Verdicts) -> None:
    alike = [digest(7 + HOMES * (number // 2), number % 2) for number in range(WINDOW)]
    for number, one in enumerate(alike):
        verdicts.add(one, ("proved", "refuted")[number % 3 == 0])
    assert [verdicts.find(one) for one in alike] == [
        ("proved", "refuted")[number % 3 == 0] for number in range(WINDOW)
    ]


def test_what_does_not_fit_into_a_window_is_forgotten_and_nothing_else(verdicts: Verdicts) -> None:
    alike = [digest(7 + HOMES * number, 0) for number in range(2 * WINDOW)]
    for one in alike:
        verdicts.add(one, "proved")
    assert [verdicts.find(one) for one in alike] == ["proved"] * WINDOW + [""] * WINDOW
    verdicts.add(digest(8, 0), "refuted")  # its window is full of others' but for one
    assert verdicts.find(digest(8, 0)) == "refuted"


@pytest.mark.parametrize("first", [0, 1, HOMES - 1, HOMES, (1 << 64) - 1])
def test_digests_at_the_edges_have_room_too(verdicts: Verdicts, first: int) -> None:
    verdicts.add(digest(first, 5), "refuted")
    assert verdicts.find(digest(first, 5)) == "refuted"


def test_another_process_reads_what_this_one_noted() -> None:
    board = SharedBoard.create(2)
    joined = SharedBoard.join(board.path, 0, 1, lambda: None)
    board.exchange(1, 2, lambda: None).judged(digest(3, 4), "refuted")
    assert joined.verdict(digest(3, 4)) == "refuted"
    joined.close()
    board.close()
