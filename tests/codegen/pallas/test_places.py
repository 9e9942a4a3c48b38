"""Arithmetic on positions."""

from __future__ import annotations

from aiosearch.codegen.ir import Index, Quotient, Remainder, affine, index
from aiosearch.codegen.pallas.places import moved, reach, solved

A, B = Index("a", 3), Index("b", 4)


def test_a_position_reaches_from_its_lowest_to_its_highest_value() -> None:
    at = affine({A: 2, B: -1}, 1)
    assert reach(at, lambda one: one.size) == (-2, 5)
    assert reach(Remainder(at, 3), lambda one: one.size) == (0, 2)


def test_indices_replaced_by_positions_are_multiplied_out() -> None:
    assert moved(affine({A: 4, B: 1}), {A: affine({B: 2}, 1)}) == affine({B: 9}, 4)


def test_a_flattened_place_is_solved_by_dividing() -> None:
    place = index(Index("f", 12))
    assert solved([affine({A: 4, B: 1})], [place]) == {
        A: Quotient(place, 4),
        B: Remainder(place, 4),
    }


def test_places_that_leave_gaps_are_not_solved() -> None:
    assert solved([affine({A: 5, B: 1})], [index(Index("f", 12))]) is None
