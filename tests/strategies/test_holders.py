"""Whoever holds most is taken first, by what is known now."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiosearch.strategies.holders import Holders


def test_the_heaviest_seat_is_taken_first_and_once() -> None:
    holders = Holders()
    for seat, weight in enumerate((0.1, 0.5, 0.2)):
        holders.hold(seat, weight)
    assert [holders.heaviest(rich=False) for _ in range(4)] == [1, 2, 0, None]


def test_only_seats_with_a_surplus_are_rich() -> None:
    holders = Holders()
    holders.hold(0, 0.5)
    holders.hold(1, 0.2, surplus=2)
    assert [holders.heaviest(rich=True) for _ in range(2)] == [1, None]


def test_a_seat_that_parted_with_some_weighs_what_is_left() -> None:
    holders = Holders()
    holders.hold(0, 0.5, surplus=9)
    holders.hold(1, 0.3, surplus=9)
    holders.part(0, 0.4, 5)
    assert holders.heaviest(rich=True) == 1
    assert holders.heaviest(rich=True) == 0


def test_a_seat_that_holds_nothing_is_nobody() -> None:
    holders = Holders()
    holders.hold(0, 0.5, surplus=9)
    holders.drop(0)
    holders.part(0, 0.1, 1)
    assert 0 not in holders
    assert holders.heaviest(rich=False) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=400))
def test_the_last_word_counts_however_often_a_seat_is_told(
    story: list[tuple[int, int]],
) -> None:
    holders = Holders()
    last: dict[int, int] = {}
    for seat, weight in story:
        holders.hold(seat, float(weight))
        last[seat] = weight
    taken = list(iter(lambda: holders.heaviest(rich=False), None))
    assert set(taken) == set(last)
    first_seen = list(dict.fromkeys(taken))
    assert [last[seat] for seat in first_seen] == sorted(last.values(), reverse=True)
