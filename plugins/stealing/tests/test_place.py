from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiosearch_stealing.board import SharedBoard
from aiosearch_stealing.layout import ROOM, SLOTS
from aiosearch_stealing.place import MOST_PIECES, BoardPlace


class Machine:
    """A board, its workers, and how often a bell was rung."""

    def __init__(self, places: int) -> None:
        self.board = SharedBoard.create(places)
        self.rings = 0
        self.workers = [self.sit(place, place + 1) for place in range(places)]

    def sit(self, place: int, owner: int) -> BoardPlace:
        return self.board.exchange(place, owner, self._ring)

    def _ring(self) -> None:
        self.rings += 1


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine(4)
    yield machine
    machine.board.close()


def offer(worker: BoardPlace, *numbers: int, weight: float = 0.1) -> None:
    for number in numbers:
        worker.offer(number, f"offer {number}".encode(), weight)


def test_half_is_taken_and_of_an_odd_number_the_larger_half(machine: Machine) -> None:
    giver, taker, *_ = machine.workers
    offer(giver, 1, 2, 3, 4, 5)
    counts = [len(taker.take()) for _ in range(4)]
    assert counts == [3, 1, 1, 0]


def test_what_was_offered_first_is_taken_first(machine: Machine) -> None:
    giver, taker, *_ = machine.workers
    offer(giver, *range(1, 7))
    assert [one.number for one in taker.take()] == [1, 2, 3]
    assert giver.taken() == [(1, 2), (2, 2), (3, 2)]
    offer(giver, 7, 8)  # into slots before those of 4, 5 and 6
    assert [one.number for one in taker.take()] == [4, 5, 6]


def test_it_is_taken_from_whoever_offers_most(machine: Machine) -> None:
    little, much, some, taker = machine.workers
    offer(little, 1, 2, 3, weight=0.01)
    offer(much, 1, weight=0.5)
    offer(some, 1, 2, weight=0.2)
    owners = [one.owner for _ in range(5) for one in taker.take()]
    assert owners == [2, 3, 3, 1, 1, 1]


def test_offers_that_weigh_nothing_are_found_too(machine: Machine) -> None:
    giver, taker, *_ = machine.workers
    offer(giver, 1, 2, weight=0.0)
    assert [one.number for _ in range(2) for one in taker.take()] == [1, 2]


def test_nobody_takes_from_himself(machine: Machine) -> None:
    giver = machine.workers[0]
    offer(giver, 1, 2)
    assert giver.take() == []
    assert giver.regain() == [1, 2]


def test_an_offer_arrives_whole_up_to_the_last_byte_of_the_room(machine: Machine) -> None:
    giver, taker, *_ = machine.workers
    largest = bytes(range(256)) * (ROOM // 256)
    assert giver.fits(largest)
    assert not giver.fits(largest + b"!")
    giver.offer(1, largest, 0.5)
    giver.offer(2, b"", 0.5)
    assert [one.blob for _ in range(2) for one in taker.take()] == [largest, b""]


def test_there_is_room_for_so_many_offers_and_again_when_they_are_known_to_be_gone(
    machine: Machine,
) -> None:
    giver, taker, *_ = machine.workers
    offer(giver, *range(1, SLOTS + 1))
    assert giver.room == 0
    taker.take()
    assert giver.room == 0  # it has not looked
    assert len(giver.taken()) == giver.room == SLOTS // 2
    giver.regain()
    assert giver.room == SLOTS


def test_an_offer_is_told_of_once(machine: Machine) -> None:
    giver, taker, *_ = machine.workers
    offer(giver, 1, 2)
    assert giver.taken() == []
    taker.take()
    assert giver.taken() == [(1, 2)]
    assert giver.taken() == []
    assert giver.regain() == [2]
    assert giver.taken() == giver.regain() == []


def test_what_is_regained_nobody_takes_and_what_is_taken_nobody_regains(machine: Machine) -> None:
    giver, taker, *_ = machine.workers
    offer(giver, 1, 2, 3, 4)
    taken = [one.number for one in taker.take()]
    regained = giver.regain()
    assert sorted(taken + regained) == [1, 2, 3, 4]
    assert taker.take() == []


def test_who_offers_rings_and_who_takes_rings_on_while_something_lies_anywhere(
    machine: Machine,
) -> None:
    first, second, taker, other = machine.workers
    offer(first, 1)
    offer(second, 1)
    assert machine.rings == 2  # one waiter may have heard both
    taker.take()
    assert machine.rings == 3
    other.take()
    assert machine.rings == 3


def test_a_place_taken_by_another_owner_takes_no_offers_of_the_old_one(machine: Machine) -> None:
    old, taker, *_ = machine.workers
    machine.sit(0, 9)
    offer(old, 1)
    assert taker.take() == []


def test_nothing_is_offered_while_something_lies_there_or_where_nobody_else_is() -> None:
    machine = Machine(3)
    giver = machine.workers[0]
    assert giver.lacking(calm=True) == 2
    offer(giver, 1)
    assert giver.lacking(calm=True) == 0
    machine.board.revoke(1, 2)
    machine.board.revoke(2, 3)
    giver.regain()
    assert giver.lacking(calm=True) == 0
    machine.board.close()


def all_have_work(machine: Machine) -> None:
    for worker in machine.workers:
        worker.rest(False)


def test_who_begins_waits(machine: Machine) -> None:
    """Until it has work, it is one who wants some."""
    giver, *_ = machine.workers
    assert giver.quiet
    assert giver.lacking(calm=False) > 0


def test_who_waits_is_offered_something_at_once(machine: Machine) -> None:
    all_have_work(machine)
    giver, taker, *_ = machine.workers
    assert giver.lacking(calm=False) == 0
    taker.rest(True)
    assert 0 < giver.lacking(calm=False) <= MOST_PIECES
    taker.rest(False)
    assert giver.lacking(calm=False) == 0


def test_the_lowest_cost_is_known_to_all(machine: Machine) -> None:
    first, second, *_ = machine.workers
    assert first.best == float("inf")
    first.improve(5.0)
    second.improve(4.0)
    assert first.best == second.best == 4.0
    first.improve(-2.5)
    first.improve(7.0)  # it is no improvement
    assert second.best == -2.5


def test_it_is_quiet_where_all_others_wait(machine: Machine) -> None:
    all_have_work(machine)
    first, *others = machine.workers
    assert not first.quiet
    for other in others:
        other.rest(True)
    assert first.quiet
    first.rest(True)
    assert first.quiet
    others[0].rest(False)
    assert not first.quiet


def test_what_nobody_wanted_is_not_offered_again_before_somebody_waits(machine: Machine) -> None:
    all_have_work(machine)
    giver, taker, *_ = machine.workers
    offer(giver, 1)
    giver.regain()
    assert giver.lacking(calm=True) == 0
    taker.rest(True)
    assert giver.lacking(calm=False) > 0
    offer(giver, 2)
    taker.take()
    taker.rest(False)
    giver.taken()
    assert giver.lacking(calm=True) > 0
