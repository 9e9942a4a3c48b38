"""A session's part in an exchange: what it reports of it, and when."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from aiosearch_stealing.board import SharedBoard
from aiosearch_stealing.layout import ROOM, SLOTS
from listener import Listener

from aiosearch.checks.verdict import Status
from aiosearch.engine.explore.bundles import Bundle
from aiosearch.engine.worker.work_sharing import Bell, ExchangeChanges, WorkSharing, load_board
from aiosearch.errors import StrategyError

NOTHING = ExchangeChanges()


class Pair:
    """Two workers on one board."""

    def __init__(self) -> None:
        self.board = SharedBoard.create(2)
        self.here, self.there = (self._sharing(owner) for owner in (1, 2))

    def _sharing(self, owner: int, verdicts: bool = True) -> WorkSharing:
        exchange = self.board.exchange(owner - 1, owner, lambda: None)
        return WorkSharing(exchange, owner, 0, verdicts)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.here.close()
    pair.there.close()
    pair.board.close()


def bundle(name: str, size: int = 1) -> Bundle:
    return Bundle(name.encode(), size, 0, 0.0, 0, 0.1)


def laid_out(sharing: WorkSharing, *bundles: Bundle) -> None:
    """Offers them, as with a report that the host has entered."""
    assert sharing.enter(list(bundles)) == []
    sharing.changes(1)
    sharing.lay_out(1)


def test_nobody_sees_an_offer_before_the_host_has_the_report_that_tells_of_it(pair: Pair) -> None:
    first = bundle("first")
    pair.here.enter([first])
    assert pair.there.take() == []
    assert pair.here.changes(7) == ExchangeChanges(offered=((1, first),))
    assert pair.here.subtrees == 1
    assert pair.there.take() == []
    pair.here.lay_out(7)
    pair.here.lay_out(7)
    assert pair.there.take() == [first]
    assert pair.there.take() == []


def test_what_is_on_its_way_to_the_host_can_be_regained_and_is_not_laid_out_later(
    pair: Pair,
) -> None:
    first, second = bundle("first"), bundle("second")
    pair.here.enter([first])
    pair.here.changes(7)
    assert pair.here.regain() == [first]
    assert pair.here.changes(8) == ExchangeChanges(gone=((1, 1),))
    pair.here.enter([second])
    pair.here.changes(9)
    pair.here.lay_out(7)
    assert pair.there.take() == []
    pair.here.lay_out(9)
    assert pair.there.take() == [second]


def test_nothing_more_is_offered_while_something_is_on_its_way(pair: Pair) -> None:
    assert pair.here.lacking(calm=True) > 0
    pair.here.enter([bundle("first")])
    pair.here.changes(7)
    assert pair.here.lacking(calm=True) == 0
    pair.here.regain()
    assert pair.here.lacking(calm=True) > 0


def test_both_say_who_has_it_once(pair: Pair) -> None:
    laid_out(pair.here, bundle("first"))
    pair.there.take()
    assert pair.there.changes(2) == ExchangeChanges(took=((1, 1),))
    assert pair.there.changes(2) == NOTHING
    pair.here.look()
    assert pair.here.changes(2) == ExchangeChanges(gone=((1, 2),))
    assert pair.here.changes(2) == NOTHING


def test_what_nobody_took_comes_back_and_is_told_of(pair: Pair) -> None:
    one, two = bundle("one"), bundle("two")
    laid_out(pair.here, one, two)
    pair.there.take()
    assert pair.here.regain() == [two]
    assert pair.here.changes(2) == ExchangeChanges(gone=((1, 2), (2, 1)))
    assert pair.here.regain() == []


def test_no_number_is_used_again(pair: Pair) -> None:
    for number in range(1, 30):
        pair.here.enter([bundle("again")])
        assert [one for one, _ in pair.here.changes(2).offered] == [number]
        pair.here.lay_out(2)
        pair.here.regain()


def test_what_is_too_large_or_too_much_is_given_back_at_once(pair: Pair) -> None:
    large = Bundle(bytes(ROOM), 1, 0, 0.0)
    small = [bundle(str(number)) for number in range(SLOTS + 2)]
    assert pair.here.enter([large, *small]) == [large, *small[SLOTS:]]
    assert len(pair.here.changes(2).offered) == SLOTS
    pair.here.lay_out(2)
    assert pair.here.enter([bundle("more")]) == [bundle("more")]


def test_what_lies_there_is_counted_by_its_subtrees(pair: Pair) -> None:
    laid_out(pair.here, bundle("three", 3), bundle("four", 4))
    assert pair.here.subtrees == 7
    pair.there.take()
    pair.here.look()
    assert pair.here.subtrees == 4


def test_who_is_told_to_rest_takes_nothing(pair: Pair) -> None:
    laid_out(pair.here, bundle("some"))
    pair.there.resting = True
    assert pair.there.take() == []
    pair.there.resting = False
    assert pair.there.take() == [bundle("some")]


def test_all_know_the_lowest_cost_that_one_was_told(pair: Pair) -> None:
    assert pair.here.best == float("inf")
    for cost in (5.0, 4.0, 9.0):
        pair.here.improve(cost)
    assert pair.here.best == pair.there.best == 4.0


def test_an_answer_of_z3_is_passed_on_unless_each_worker_has_to_ask() -> None:
    pair = Pair()
    digest = bytes(range(32))
    pair.here.judged(digest, Status.REFUTED)
    assert pair.there.verdict(digest) is Status.REFUTED
    assert pair.there.verdict(bytes(32)) is None
    alone = WorkSharing(pair.board.exchange(1, 3, lambda: None), 3, 0, verdicts=False)
    assert alone.verdict(digest) is None
    alone.judged(bytes(32), Status.PROVED)
    assert pair.here.verdict(bytes(32)) is None
    pair.board.close()


@pytest.mark.parametrize("name", ["nowhere:Board", "aiosearch_stealing.board:Nothing", ":", "os"])
def test_a_board_that_is_not_installed_is_named(name: str) -> None:
    with pytest.raises(StrategyError, match=f"the exchange '{name}' cannot be loaded"):
        load_board(name)


def test_a_board_is_found_by_its_name() -> None:
    assert load_board("aiosearch_stealing.board:SharedBoard") is SharedBoard


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell.make()
    yield bell
    bell.close()


@pytest.fixture
def listeners(bell: Bell) -> Iterator[list[Listener]]:
    """Two processes that wait for it."""
    with ExitStack() as stack:
        both = [Listener(bell), Listener(bell)]
        for listener in both:
            stack.callback(listener.close)
        yield both


def rings(bell: Bell) -> bool:
    """Whether somebody who began to wait now would be woken."""
    waiting = select.poll()
    waiting.register(bell.fds[0], select.POLLIN)
    return bool(waiting.poll(0))


def test_a_ring_is_kept_until_somebody_takes_note_of_it(bell: Bell) -> None:
    assert not rings(bell)
    bell.ring()
    bell.ring()
    assert rings(bell)
    bell.hush()
    assert not rings(bell)
    bell.hush()


def test_a_bell_that_nobody_hears_may_be_rung_for_ever(bell: Bell) -> None:
    os.eventfd_write(bell.fds[0], (1 << 64) - 2)  # as often as can be counted
    bell.ring()
    assert rings(bell)


def test_a_child_hears_the_hosts_bell(bell: Bell) -> None:
    heard = Bell.inherited([*bell.arguments])
    assert heard.fds == bell.fds
    bell.ring()
    assert rings(heard)


def test_one_ring_wakes_one_of_those_who_wait(bell: Bell, listeners: list[Listener]) -> None:
    """Also while nobody has taken note of it yet: a second ring is for the other."""
    for listener in listeners:
        while not listener.asleep:
            os.sched_yield()
    bell.ring()
    woken, _, _ = select.select(listeners, [], [])
    (other,) = set(listeners) - set(woken)
    assert other.asleep
    bell.ring()
    assert all(listener.heard() for listener in listeners)


def test_without_an_eventfd_there_is_nothing_to_hear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.eventfd")
    bell = Bell.make()
    assert bell.fds == bell.arguments == Bell.inherited([]).fds == ()
    bell.close()


def test_it_can_be_closed_twice() -> None:
    bell = Bell.make()
    (fd,) = bell.fds
    bell.close()
    bell.close()
    assert bell.fds == ()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
