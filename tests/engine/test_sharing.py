"""A session's part in an exchange: what it reports of it, and when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiosearch_stealing.board import SharedBoard
from aiosearch_stealing.layout import ROOM, SLOTS

from aiosearch.checks.verdict import Status
from aiosearch.engine.bundles import Bundle
from aiosearch.engine.sharing import Sharing, load_board
from aiosearch.errors import StrategyError

NOTHING: dict[str, tuple[object, ...]] = {"offered": (), "gone": (), "took": (), "leans": ()}


class Pair:
    """Two workers on one board."""

    def __init__(self) -> None:
        self.board = SharedBoard.create(2)
        self.here, self.there = (self._sharing(owner) for owner in (1, 2))

    def _sharing(self, owner: int, verdicts: bool = True) -> Sharing:
        exchange = self.board.exchange(owner - 1, owner, lambda: None)
        return Sharing(exchange, owner, 0, verdicts)


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.here.close()
    pair.there.close()
    pair.board.close()


def bundle(name: str, size: int = 1) -> Bundle:
    return Bundle(name.encode(), size, 0, 0.0, 0, 0.1)


def laid_out(sharing: Sharing, *bundles: Bundle) -> None:
    """Offers them, as with a report that is sent."""
    assert sharing.enter(list(bundles)) == []
    sharing.told()
    sharing.lay_out()


def test_nobody_sees_an_offer_before_the_report_that_tells_of_it_is_sent(pair: Pair) -> None:
    first = bundle("first")
    pair.here.enter([first])
    assert pair.there.take() == []
    assert pair.here.told() == NOTHING | {"offered": ((1, first),)}
    assert pair.there.take() == []
    pair.here.lay_out()
    assert pair.there.take() == [first]


def test_both_say_who_has_it_once(pair: Pair) -> None:
    laid_out(pair.here, bundle("first"))
    pair.there.take()
    assert pair.there.told() == NOTHING | {"took": ((1, 1),)}
    assert pair.there.told() == NOTHING
    pair.here.look()
    assert pair.here.told() == NOTHING | {"gone": ((1, 2),)}
    assert pair.here.told() == NOTHING


def test_what_nobody_took_comes_back_and_is_told_of(pair: Pair) -> None:
    one, two = bundle("one"), bundle("two")
    laid_out(pair.here, one, two)
    pair.there.take()
    assert pair.here.regain() == [two]
    assert pair.here.told() == NOTHING | {"gone": ((1, 2), (2, 1))}
    assert pair.here.regain() == []


def test_no_number_is_used_again(pair: Pair) -> None:
    for number in range(1, 30):
        pair.here.enter([bundle("again")])
        assert [one for one, _ in pair.here.told()["offered"]] == [number]
        pair.here.lay_out()
        pair.here.regain()


def test_what_is_too_large_or_too_much_is_given_back_at_once(pair: Pair) -> None:
    large = Bundle(bytes(ROOM), 1, 0, 0.0)
    small = [bundle(str(number)) for number in range(SLOTS + 2)]
    assert pair.here.enter([large, *small]) == [large, *small[SLOTS:]]
    assert len(pair.here.told()["offered"]) == SLOTS
    pair.here.lay_out()
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


def test_who_leaves_nodes_out_for_anothers_solution_says_so_until_the_host_knows_of_it(
    pair: Pair,
) -> None:
    pair.here.improve(5.0, 7)
    pair.here.improve(4.0, 9)
    assert pair.there.better(float("inf")) == 4.0
    leaning = NOTHING | {"leans": ((1, 9),)}
    assert pair.there.told() == pair.there.told() == leaning
    pair.there.confirm()
    assert pair.there.told() == NOTHING


def test_nobody_leans_on_himself_or_on_what_is_no_better(pair: Pair) -> None:
    pair.here.improve(5.0, 7)
    assert pair.here.better(float("inf")) == 5.0
    assert pair.there.better(5.0) == 5.0
    assert pair.here.told() == pair.there.told() == NOTHING


def test_an_answer_of_z3_is_passed_on_unless_each_worker_has_to_ask() -> None:
    pair = Pair()
    digest = bytes(range(32))
    pair.here.judged(digest, Status.REFUTED)
    assert pair.there.verdict(digest) is Status.REFUTED
    assert pair.there.verdict(bytes(32)) is None
    alone = Sharing(pair.board.exchange(1, 3, lambda: None), 3, 0, verdicts=False)
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
