"""The boards of one machine: one a session, for as long as somebody sits there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from aiosearch_stealing.board import SharedBoard

from aiosearch.engine.wire.messages import Begin
from aiosearch.engine.wire.reference import ObjectReference
from aiosearch.engine.worker.work_sharing import MachineBoards
from aiosearch.errors import StrategyError
from aiosearch.memory import lock, reopen

BOARD = "aiosearch_stealing.board:SharedBoard"


@pytest.fixture
def boards() -> Iterator[MachineBoards]:
    boards = MachineBoards(3)
    yield boards
    boards.close()


def begin(session: int, owner: int, exchange: str = BOARD) -> Begin:
    nothing = ObjectReference("", "")
    return Begin(session, nothing, nothing, "", False, "", owner=owner, exchange=exchange)


def is_there(board: str) -> bool:
    return os.path.exists(board.partition("#")[0])


def test_workers_of_a_session_have_one_board_and_a_place_each(boards: MachineBoards) -> None:
    seated = [boards.seat(begin(1, owner), channel) for owner, channel in ((5, 70), (6, 71))]
    assert len({one.board for one in seated}) == 1
    assert [one.place for one in seated] == [0, 1]


def test_sessions_have_boards_of_their_own(boards: MachineBoards) -> None:
    assert boards.seat(begin(1, 5), 70).board != boards.seat(begin(2, 5), 70).board


@pytest.mark.parametrize(("places", "exchange"), [(1, BOARD), (3, "")])
def test_where_there_is_nothing_to_share_or_nobody_to_share_with_there_is_no_board(
    places: int, exchange: str
) -> None:
    boards = MachineBoards(places)
    seated = boards.seat(begin(1, 5, exchange), 70)
    assert (seated.exchange, seated.board) == ("", "")
    assert boards.revoke(1, 70) == {}


def test_who_finds_no_place_free_does_without(boards: MachineBoards) -> None:
    seated = [boards.seat(begin(1, owner), owner) for owner in range(1, 5)]
    assert [one.board != "" for one in seated] == [True, True, True, False]
    assert seated[-1].exchange == ""


def test_a_place_that_was_left_is_taken_by_the_next(boards: MachineBoards) -> None:
    for channel in (70, 71, 72):
        boards.seat(begin(1, channel), channel)
    boards.leave(1, 71)
    assert boards.seat(begin(1, 99), 73).place == 1


def test_who_leaves_is_told_of_as_the_board_knows_it(boards: MachineBoards) -> None:
    path = boards.seat(begin(1, 5), 70).board
    place = boards.seat(begin(1, 6), 71).place
    giver = SharedBoard.join(path, 0, 5, lambda: None)
    taker = SharedBoard.join(path, place, 6, lambda: None)
    for number in (1, 2):
        giver.offer(number, b"some", 0.5)
    taker.take()
    assert boards.revoke(1, 70) == {1: 6}
    assert taker.take() == []
    assert boards.revoke(1, 70) == {}
    giver.close()
    taker.close()


def test_as_long_as_somebody_holds_the_lock_of_a_dead_workers_place_nobody_else_gets_it(
    boards: MachineBoards,
) -> None:
    where = boards.seat(begin(1, 5), 70).board
    file = reopen(where)
    lock(file, 0, 1)
    assert boards.revoke(1, 70) is None
    assert boards.seat(begin(1, 6), 71).place == 1
    os.close(file)
    assert boards.revoke(1, 70) == {}
    assert boards.seat(begin(1, 7), 72).place == 0


def test_a_board_is_gone_when_the_last_has_left(boards: MachineBoards) -> None:
    path = boards.seat(begin(1, 5), 70).board
    boards.seat(begin(1, 6), 71)
    boards.leave(1, 70)
    assert is_there(path)
    boards.leave(1, 71)
    assert not is_there(path)


def test_closing_ends_all_and_can_be_done_twice(boards: MachineBoards) -> None:
    paths = [boards.seat(begin(session, 5), 70).board for session in (1, 2)]
    boards.close()
    boards.close()
    assert not any(map(is_there, paths))


def test_a_board_that_cannot_be_made_is_named(boards: MachineBoards) -> None:
    complaint = "'broken_boards:CannotBeMade' cannot make a board of 3 places: OSError: no room"
    with pytest.raises(StrategyError, match=complaint):
        boards.open(1, "broken_boards:CannotBeMade")
