"""The books on what workers pass on to each other, in whatever order their reports come."""

from __future__ import annotations

import pytest

from aiosearch.engine.offers import Offers, Settled, Standing
from aiosearch.engine.wire import Report

GIVER, TAKER, OTHER = 1, 2, 3


def told(**what: object) -> Report:
    return Report(1, True, **what)  # type: ignore[arg-type]


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
    took = told(took=((GIVER, 2),))
    assert offers.standing(TAKER, took) is Standing.GOOD
    assert offers.settle(TAKER, took, {}) == Settled((12,), ())
    assert offers.settle(GIVER, told(gone=((2, TAKER),)), {}) == Settled((), ())
    assert offers.tasks(GIVER) == [11, 13]


def test_who_lost_something_may_be_the_first_to_say_so(offers: Offers) -> None:
    assert offers.settle(GIVER, told(gone=((2, TAKER),)), {}) == Settled((), ())
    assert offers.tasks(GIVER) == [11, 13]
    assert offers.settle(TAKER, told(took=((GIVER, 2),)), {}) == Settled((12,), ())


def test_what_is_regained_is_closed_for_the_reports_own_subtrees_stand_for_it(
    offers: Offers,
) -> None:
    assert offers.settle(GIVER, told(gone=((1, GIVER), (3, GIVER))), {}) == Settled((11, 13), ())
    assert offers.tasks(GIVER) == [12]


def test_what_somebody_took_who_then_died_is_open_again_when_its_giver_tells(
    offers: Offers,
) -> None:
    assert offers.bury(TAKER, {}) == []
    assert offers.settle(GIVER, told(gone=((2, TAKER),)), {}) == Settled((), (12,))


def test_what_a_dead_taker_had_not_reported_is_open_again(offers: Offers) -> None:
    offers.settle(GIVER, told(gone=((1, TAKER), (2, OTHER))), {})
    assert offers.bury(TAKER, {}) == [11]
    assert offers.bury(TAKER, {}) == []


def test_what_a_dead_giver_offered_is_open_again_but_for_what_the_living_took(
    offers: Offers,
) -> None:
    offers.bury(OTHER, {})
    assert offers.bury(GIVER, {1: TAKER, 2: OTHER}) == [12, 13]
    assert offers.settle(TAKER, told(took=((GIVER, 1),)), {}) == Settled((11,), ())


def test_where_nobody_knows_who_took_it_everything_a_dead_giver_offered_is_open_again(
    offers: Offers,
) -> None:
    assert offers.bury(GIVER, None) == [11, 12, 13]
    assert offers.standing(TAKER, told(took=((GIVER, 1),))) is Standing.VOID


def test_who_takes_what_is_not_reported_yet_is_early(offers: Offers) -> None:
    took = told(took=((GIVER, 4),))
    assert offers.standing(TAKER, took) is Standing.EARLY
    offers.settle(GIVER, told(sequence=2), {4: 14})
    assert offers.standing(TAKER, took) is Standing.GOOD


def test_who_takes_what_was_never_reported_builds_on_nothing(offers: Offers) -> None:
    offers.bury(GIVER, {})
    assert offers.standing(TAKER, told(took=((GIVER, 4),))) is Standing.VOID


def test_nobody_has_what_another_one_took(offers: Offers) -> None:
    took = told(took=((GIVER, 2),))
    offers.settle(GIVER, told(gone=((2, TAKER),)), {})
    assert offers.standing(OTHER, took) is Standing.VOID
    offers.settle(TAKER, took, {})
    assert offers.standing(OTHER, took) is Standing.VOID


def test_a_report_that_is_early_in_one_thing_and_void_in_another_is_void(offers: Offers) -> None:
    offers.bury(OTHER, {})
    assert offers.standing(TAKER, told(took=((GIVER, 9), (OTHER, 1)))) is Standing.VOID
    leaning = told(took=((GIVER, 9),), leans=((OTHER, 1),))
    assert offers.standing(TAKER, leaning) is Standing.VOID


def test_who_leans_on_a_solution_waits_for_the_report_that_has_it(offers: Offers) -> None:
    leaning = told(leans=((GIVER, 2),))
    assert offers.standing(TAKER, leaning) is Standing.EARLY
    offers.settle(GIVER, told(sequence=2), {})
    assert offers.standing(TAKER, leaning) is Standing.GOOD
    offers.bury(GIVER, {})
    assert offers.standing(TAKER, leaning) is Standing.GOOD  # it is in the books
    assert offers.standing(TAKER, told(leans=((GIVER, 3),))) is Standing.VOID


def test_offers_in_a_report_count_with_those_before(offers: Offers) -> None:
    offers.settle(GIVER, told(sequence=2), {4: 14})
    assert offers.tasks(GIVER) == [11, 12, 13, 14]
    assert offers.bury(GIVER, {}) == [11, 12, 13, 14]
    assert offers.tasks(GIVER) == []
