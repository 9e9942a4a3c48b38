"""Whatever moment a worker dies or freezes at, every offer has one who has it, or none."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from aiosearch_stealing.board import SharedBoard
from aiosearch_stealing.layout import OPEN, SLOTS
from mortals import LINE, Mortals, payload

PATIENCE = 30
"""Seconds after which what a test waits for is not coming."""
GENERATIONS = 120
LONGEST_LIFE = 250
"""Lines of notes that a generation may write before its first one is killed."""


@pytest.fixture
def board() -> Iterator[SharedBoard]:
    board = SharedBoard.create(4)
    yield board
    board.close()


@pytest.fixture
def mortals(board: SharedBoard, tmp_path: Path) -> Iterator[Mortals]:
    with Mortals(board, tmp_path / "notes") as mortals:
        yield mortals


def nothing() -> None:
    """Nobody rests."""


def notes_grow(notes: Path, size: int) -> None:
    end = time.monotonic() + PATIENCE
    while notes.stat().st_size < size:
        assert time.monotonic() < end


def slots(board: SharedBoard, place: int) -> Iterator[tuple[int, int, bytes]]:
    """The number, the taker and the payload of whatever lies at a place."""
    for slot in range(SLOTS):
        number, taker = divmod(board.layout.word(place, slot), 1 << 24)
        if number:
            yield number, taker, board.layout.read(place, slot)


def holders(mortals: Mortals) -> dict[tuple[int, int], int]:
    """Who has which offer, by everybody's own words, which must not contradict each other."""
    took = Counter()
    found: dict[tuple[int, int], int] = {}
    for what, owner, number, holder in mortals.read():
        name = (int(owner), int(number))
        assert what != "torn"
        took[name] += what != "gone"
        assert took[name] < 2
        assert found.setdefault(name, int(holder)) == int(holder)
    return found


def test_workers_killed_at_any_moment_leave_each_offer_open_or_with_one_who_has_it(
    board: SharedBoard, mortals: Mortals
) -> None:
    dice = Random(7)
    opened = settled = 0
    for generation in range(GENERATIONS):
        owners = [3 * generation + place + 1 for place in range(3)]
        pids = [mortals.start("busy", place, owner) for place, owner in enumerate(owners)]
        size = mortals.notes.stat().st_size
        notes_grow(mortals.notes, size + LINE * dice.randrange(LONGEST_LIFE))
        for pid in dice.sample(pids, 3):
            mortals.kill(pid)
        said = holders(mortals)
        for place, owner in enumerate(owners):
            if board.layout.owners[place] != owner:
                continue  # it died before it sat down
            lying = list(slots(board, place))
            assert len({number for number, _, _ in lying}) == len(lying)
            assert board.revoke(place, owner) == {n: taker for n, taker, _ in lying if taker}
            for number, taker, blob in lying:
                assert taker or blob == payload(owner, number)
                assert said.get((owner, number), taker) == taker
                assert taker in (OPEN, *owners)
                opened += taker == OPEN
                settled += taker != OPEN
        mortals.notes.write_bytes(b"")
    assert opened > GENERATIONS
    assert settled > GENERATIONS


def test_two_who_take_at_the_same_time_never_take_the_same(
    board: SharedBoard, mortals: Mortals
) -> None:
    giver = board.exchange(0, 1, nothing)
    pids = [mortals.start("greedy", place, place + 1) for place in (1, 2)]
    number, takers = 0, []
    while len(takers) < 600:
        while giver.room:
            number += 1
            giver.offer(number, payload(1, number), 0.5)
        takers += giver.taken()
    for pid in pids:
        mortals.kill(pid)
    said = holders(mortals)
    told = {(1, taken): taker for taken, taker in takers}
    assert len(told) == len(takers)
    assert all(said.get(name, taker) == taker for name, taker in told.items())
    assert len(told.keys() - said.keys()) <= SLOTS  # they died before they noted it
    assert set(told.values()) == {2, 3}


def test_who_looks_for_work_passes_on_where_a_frozen_worker_has_the_lock(
    board: SharedBoard, mortals: Mortals
) -> None:
    board.exchange(0, 1, nothing).offer(1, b"much", 0.9)
    board.exchange(2, 3, nothing).offer(1, b"little", 0.1)
    taker = SharedBoard.join(board.path, 3, 4, nothing)
    frozen = mortals.start("frozen", 1, 2)
    assert [one.blob for one in taker.take()] == [b"little"]
    assert taker.take() == []
    mortals.kill(frozen)
    assert [one.blob for one in taker.take()] == [b"much"]
    taker.close()


def test_the_host_does_not_wait_for_a_frozen_worker(board: SharedBoard, mortals: Mortals) -> None:
    board.exchange(0, 1, nothing).offer(5, b"some", 0.5)
    frozen = mortals.start("frozen", 1, 2)
    assert board.revoke(0, 1) is None
    mortals.kill(frozen)
    assert board.revoke(0, 1) == {}
    assert board.exchange(2, 3, nothing).take() == []


def test_a_frozen_worker_that_is_woken_goes_on(board: SharedBoard, mortals: Mortals) -> None:
    giver = SharedBoard.join(board.path, 0, 1, nothing)
    giver.offer(1, b"some", 0.5)
    frozen = mortals.start("frozen", 1, 2)
    os.kill(frozen, signal.SIGCONT)
    assert giver.regain() == [1]  # it waits for the lock
    assert mortals.bury(frozen) == 0
    giver.close()
