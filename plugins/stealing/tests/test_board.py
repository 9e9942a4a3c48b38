from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiosearch_stealing.board import SharedBoard
from aiosearch_stealing.layout import MOST_PLACES, SLOTS

from aiosearch.errors import StrategyError
from aiosearch.testing import no_leaks


@pytest.fixture
def board() -> Iterator[SharedBoard]:
    board = SharedBoard.create(3)
    yield board
    board.close()


def nothing() -> None:
    """Nobody rests."""


@pytest.mark.parametrize("places", [1, 2, MOST_PLACES])
def test_every_place_has_room_of_its_own(places: int) -> None:
    board = SharedBoard.create(places)
    for place in {0, places - 1}:
        exchange = board.exchange(place, place + 1, nothing)
        for number in range(1, SLOTS + 1):
            exchange.offer(number, f"{place}/{number}".encode(), 0.1)
    for place in {0, places - 1}:
        lying = [board.layout.read(place, slot) for slot in range(SLOTS)]
        assert lying == [f"{place}/{number}".encode() for number in range(1, SLOTS + 1)]
        assert board.revoke(place, place + 1) == {}
    board.close()


@pytest.mark.parametrize("places", [0, -1, MOST_PLACES + 1, 5_000])
def test_a_board_has_one_place_or_more_and_not_endlessly_many(places: int) -> None:
    with pytest.raises(StrategyError, match=rf"1 to {MOST_PLACES} places, not {places}"):
        SharedBoard.create(places)


@contextmanager
def limited(what: int, most: int) -> Iterator[None]:
    """Lets this process have no more of something for a while."""
    before = resource.getrlimit(what)
    resource.setrlimit(what, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(what, before)


def mapped() -> int:
    """The bytes of all that this process has mapped."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


@pytest.mark.parametrize(
    ("what", "most", "why"),
    [
        (resource.RLIMIT_NOFILE, lambda: 0, "Too many open files"),
        (resource.RLIMIT_FSIZE, lambda: 1 << 20, "File too large"),
        (resource.RLIMIT_AS, lambda: mapped() + (256 << 20), "Cannot allocate memory"),
    ],
)
async def test_without_room_for_a_board_a_sentence_says_so_and_nothing_is_left(
    what: int, most: Callable[[], int], why: str
) -> None:
    async with no_leaks():
        with limited(what, most()), pytest.raises(StrategyError) as caught:
            SharedBoard.create(MOST_PLACES)
    room = f"there is no room for a board of {MOST_PLACES} places ({why}); use `queue`, or fewer"
    assert str(caught.value).startswith(room)


async def test_who_has_no_memory_for_a_board_of_others_leaves_nothing_open() -> None:
    async with no_leaks():
        board = SharedBoard.create(MOST_PLACES)
        files = len(os.listdir("/proc/self/fd"))
        room = mapped() + (256 << 20)
        with limited(resource.RLIMIT_AS, room), pytest.raises(OSError, match="Cannot allocate"):
            SharedBoard.join(board.path, 0, 1, nothing)
        assert len(os.listdir("/proc/self/fd")) == files
        board.close()


def test_elsewhere_than_on_linux_a_sentence_says_what_to_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(StrategyError, match="needs Linux; use `queue` here"):
        SharedBoard.create(2)


async def test_all_memory_and_files_are_given_back() -> None:
    async with no_leaks():
        for _ in range(3):
            board = SharedBoard.create(2)
            joined = SharedBoard.join(board.path, 1, 7, nothing)
            joined.close()
            joined.close()
            board.close()
            board.close()
            await asyncio.sleep(0)


def test_a_closed_board_cannot_be_joined(board: SharedBoard) -> None:
    board.close()
    with pytest.raises(FileNotFoundError):
        SharedBoard.join(board.path, 0, 1, nothing)


def test_nobody_who_comes_too_late_sits_down_at_another_board(board: SharedBoard) -> None:
    following = SharedBoard.create(3)
    file, _, _ = following.path.partition("#")
    _, _, name = board.path.partition("#")
    with pytest.raises(FileNotFoundError, match=r"is gone"):
        SharedBoard.join(f"{file}#{name}", 0, 1, nothing)
    assert not any(following.layout.owners)
    following.close()


def test_two_boards_know_nothing_of_each_other(board: SharedBoard) -> None:
    other = SharedBoard.create(3)
    board.exchange(0, 1, nothing).offer(1, b"here", 0.5)
    assert other.exchange(1, 2, nothing).take() == []
    assert len(board.exchange(1, 2, nothing).take()) == 1
    other.close()


def test_what_lay_there_of_a_dead_owner_cannot_be_taken_any_more(board: SharedBoard) -> None:
    dead, other = board.exchange(0, 1, nothing), board.exchange(1, 2, nothing)
    for number in range(1, 4):
        dead.offer(number, b"some", 0.5)
    taken = other.take()
    assert board.revoke(0, 1) == {one.number: 2 for one in taken} == {1: 2, 2: 2}
    assert other.take() == []


def test_a_dead_owner_takes_nothing_back_and_makes_no_offers(board: SharedBoard) -> None:
    dead, other = board.exchange(0, 1, nothing), board.exchange(1, 2, nothing)
    dead.offer(1, b"some", 0.5)
    board.revoke(0, 1)
    dead.offer(2, b"more", 0.5)
    assert dead.regain() == []
    assert other.take() == []


def test_who_died_before_it_sat_down_had_nothing(board: SharedBoard) -> None:
    board.exchange(0, 1, nothing).offer(1, b"some", 0.5)
    assert board.revoke(0, 2) == {}
    assert len(board.exchange(1, 3, nothing).take()) == 1


def test_what_an_owner_regained_it_has(board: SharedBoard) -> None:
    owner = board.exchange(0, 1, nothing)
    owner.offer(1, b"some", 0.5)
    assert owner.regain() == [1]
    assert board.revoke(0, 1) == {1: 1}


def test_the_cost_that_a_dead_owner_told_of_stays(board: SharedBoard) -> None:
    dead, other = board.exchange(0, 1, nothing), board.exchange(1, 2, nothing)
    other.improve(8.0)
    dead.improve(3.0)
    board.revoke(0, 1)
    board.exchange(0, 3, nothing)
    assert other.best == 3.0


def test_a_new_owner_begins_with_an_empty_place(board: SharedBoard) -> None:
    old, other = board.exchange(0, 1, nothing), board.exchange(1, 2, nothing)
    for number in range(1, SLOTS + 1):
        old.offer(number, b"old", 0.1)
    old.rest(True)
    new = board.exchange(0, 3, nothing)
    assert new.room == SLOTS
    assert other.take() == []
    new.offer(1, b"new", 0.5)
    assert [(one.owner, one.blob) for one in other.take()] == [(3, b"new")]


def test_processes_open_the_same_board_by_its_path(board: SharedBoard) -> None:
    joined = SharedBoard.join(board.path, 2, 9, nothing)
    joined.offer(1, b"from there", 0.5)
    (taken,) = board.exchange(0, 1, nothing).take()
    assert (taken.owner, taken.number, taken.blob) == (9, 1, b"from there")
    assert joined.taken() == [(1, 1)]
    joined.close()


def test_the_file_is_in_memory_and_has_no_name(board: SharedBoard) -> None:
    assert os.readlink(board.path.partition("#")[0]).startswith("/memfd:")
