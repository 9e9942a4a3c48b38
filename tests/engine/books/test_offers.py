"""The books on what workers pass on to each other, in whatever order their reports come."""

from __future__ import annotations

import pytest

from aiosearch.engine.books.offers import OfferChanges, Offers
from aiosearch.engine.wire.messages import WorkerReport

GIVER, TAKER, OTHER = 1, 2, 3


def told(**what: object) -> WorkerReport:
    return WorkerReport(1, True, **what)  # type: ignore[arg-type]


@pytest.fixture
def offers() -> Offers:
    """The giver has offered 1, 2 and 3, which are the tasks 11, 12 and 13."""
    offers = Offers()
    for owner in (GIVER, TAKER, OTHER):
        offers.join(owner)
    offers.settle(GIVER, told(sequence=1), {1: 11, 2: 12, 3: 13})
    return offers


def test_what_is_offered_is_its_owners_until_somebody_says_otherwise(offers: Offers) -> None:
    assert offers.tasks(GIVER) == [11, 12, 13]
    assert offers.tasks(TAKER) == []


def test_who_took_something_may_be_the_first_to_say_so(offers: Offers) -> None:
    assert offers.settle(TAKER, told(took=((GIVER, 2),)), {}) == OfferChanges((12,), ())
    assert offers.settle(GIVER, told(gone=((2, TAKER),)), {}) == OfferChanges((), ())
    assert offers.tasks(GIVER) == [11, 13]


def test_who_lost_something_may_be_the_first_to_say_so(offers: Offers) -> None:
    assert offers.settle(GIVER, told(gone=((2, TAKER),)), {}) == OfferChanges((), ())
    assert offers.tasks(GIVER) == [11, 13]
    assert offers.settle(TAKER, told(took=((GIVER, 2),)), {}) == OfferChanges((12,), ())


def test_what_is_regained_is_closed_for_the_reports_own_subtrees_stand_for_it(
    offers: Offers,
) -> None:
    assert offers.settle(GIVER, told(gone=((1, GIVER), (3, GIVER))), {}) == OfferChanges(
        (11, 13), ()
    )
    assert offers.tasks(GIVER) == [12]


def test_what_somebody_took_who_then_died_is_open_again_when_its_giver_tells(
    offers: Offers,
) -> None:
    assert offers.leave(TAKER) == []
    assert offers.settle(GIVER, told(gone=((2, TAKER),)), {}) == OfferChanges((), (12,))


def test_what_a_dead_taker_had_not_reported_is_open_again(offers: Offers) -> None:
    offers.settle(GIVER, told(gone=((1, TAKER), (2, OTHER))), {})
    assert offers.leave(TAKER) == [11]
    assert offers.leave(TAKER) == []


def test_what_a_dead_giver_offered_is_open_again_but_for_what_the_living_took(
    offers: Offers,
) -> None:
    offers.leave(OTHER)
    assert offers.leave(GIVER) == []
    assert offers.bury(GIVER, {1: TAKER, 2: OTHER}) == [12, 13]
    assert offers.settle(TAKER, told(took=((GIVER, 1),)), {}) == OfferChanges((11,), ())


def test_until_a_dead_giver_is_buried_its_offers_can_still_be_taken(offers: Offers) -> None:
    offers.leave(GIVER)
    assert offers.settle(TAKER, told(took=((GIVER, 1),)), {}) == OfferChanges((11,), ())
    assert offers.tasks(GIVER) == [12, 13]
    assert offers.bury(GIVER, {1: TAKER}) == [12, 13]
    assert offers.bury(GIVER, {}) == []


def test_who_took_of_a_dead_giver_and_died_as_well_gives_it_back(offers: Offers) -> None:
    offers.leave(GIVER)
    offers.bury(GIVER, {1: TAKER, 2: TAKER, 3: TAKER})
    assert offers.leave(TAKER) == [11, 12, 13]


def test_offers_in_a_report_count_with_those_before(offers: Offers) -> None:
    offers.settle(GIVER, told(sequence=2), {4: 14})
    assert offers.tasks(GIVER) == [11, 12, 13, 14]
    assert offers.bury(GIVER, {}) == [11, 12, 13, 14]
    assert offers.tasks(GIVER) == []


@pytest.mark.parametrize("numbers", [(3,), (4, 4), (5, 4), (0,), (-1,)])
def test_no_number_is_used_twice(offers: Offers, numbers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="offers"):
        offers.check(GIVER, told(sequence=2), numbers)
    offers.check(GIVER, told(sequence=2), (4, 7))


def test_nobody_has_taken_what_is_not_there(offers: Offers) -> None:
    offers.join(OTHER + 1, "elsewhere")
    offers.check(TAKER, told(took=((GIVER, 2),)), ())
    for taker, took in ((TAKER, (GIVER, 9)), (TAKER, (99, 1)), (OTHER + 1, (GIVER, 2))):
        with pytest.raises(ValueError, match="took"):
            offers.check(taker, told(took=(took,)), ())
    with pytest.raises(ValueError, match="twice"):
        offers.check(TAKER, told(took=((GIVER, 2), (GIVER, 2))), ())
