"""Arithmetic on positions."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from aiosearch.codegen.ir import (
    Affine,
    LoopIndex,
    Mixed,
    Position,
    Quotient,
    Remainder,
    affine,
    index,
)
from aiosearch.codegen.ir.affine_maps import (
    ZERO,
    bounds,
    nested_divisions,
    position_sum,
    quotient,
    remainder,
    row_major,
    shifted,
    solve_indices,
    substitute_indices,
    substituted,
    sums,
    unravelled,
    value_bounds,
)

ROW, COLUMN, INNER = LoopIndex("i", 4), LoopIndex("j", 6), LoopIndex("k", 3)


def value(position: Position, at: dict[LoopIndex, int]) -> int:
    """The place, said plainly."""
    match position:
        case Affine():
            return position.offset + sum(factor * at[one] for one, factor in position.terms)
        case Quotient():
            return value(position.position, at) // position.by
        case Remainder():
            return value(position.position, at) % position.by
        case Mixed():
            parts = (factor * value(one, at) for one, factor in position.terms)
            return sum(parts) + value(position.rest, at)


def everywhere() -> list[dict[LoopIndex, int]]:
    sizes = (range(one.size) for one in (ROW, COLUMN, INNER))
    return [dict(zip((ROW, COLUMN, INNER), at, strict=True)) for at in product(*sizes)]


def drawn(random: Random, depth: int = 3) -> tuple[Position, dict[int, int]]:
    """A position made by arithmetic, and what it is at each place when done on numbers."""
    places = everywhere()
    if not depth:
        one = random.choice((ROW, COLUMN, INNER))
        return index(one), {number: at[one] for number, at in enumerate(places)}
    first, own = drawn(random, depth - 1)
    by, offset = random.randint(1, 12), random.randint(-3, 9)
    match random.randrange(4):
        case 0:
            return quotient(first, by), {n: one // by for n, one in own.items()}
        case 1:
            return remainder(first, by), {n: one % by for n, one in own.items()}
        case 2:
            return shifted(first, offset), {n: one + offset for n, one in own.items()}
    second, other = drawn(random, depth - 1)
    found = position_sum([(first, by), (second, offset)])
    return found, {n: one * by + other[n] * offset for n, one in own.items()}


@pytest.mark.parametrize("part", range(3))
def test_arithmetic_of_positions_is_that_of_the_numbers(part: int) -> None:
    """And no place is outside of the bounds."""
    for seed in range(part * 100, (part + 1) * 100):
        position, wanted = drawn(Random(seed), 4)
        low, high = bounds(position)
        for number, at in enumerate(everywhere()):
            assert value(position, at) == wanted[number], (seed, str(position))
            assert low <= wanted[number] <= high, (seed, str(position))


@pytest.mark.parametrize("seed", range(60))
def test_other_positions_stand_for_indices(seed: int) -> None:
    """The value is the one at the places that they name."""
    position, _ = drawn(Random(seed), 3)
    changed = substituted(position, {ROW: index(INNER), COLUMN: affine({ROW: 1, INNER: 1})})
    for at in everywhere():
        moved = {ROW: at[INNER], COLUMN: at[ROW] + at[INNER], INNER: at[INNER]}
        assert value(changed, at) == value(position, moved)


def test_a_flat_place_comes_apart_again() -> None:
    """Along the axes that it was made of, and along others where these divide."""
    flat = row_major((index(ROW), index(COLUMN), index(INNER)), (4, 6, 3))
    assert unravelled(flat, (4, 6, 3)) == (index(ROW), index(COLUMN), index(INNER))
    assert unravelled(flat, (24, 3)) == (affine({ROW: 6, COLUMN: 1}), index(INNER))
    assert unravelled(flat, (4, 18)) == (index(ROW), affine({COLUMN: 3, INNER: 1}))


def test_a_place_that_was_taken_apart_is_whole_again() -> None:
    parts = quotient(index(COLUMN), 3), remainder(index(COLUMN), 3)
    assert [str(part) for part in parts] == ["(j) / 3", "(j) % 3"]
    assert row_major(parts, (2, 3)) == index(COLUMN)


def test_divisions_of_divisions_are_one() -> None:
    assert quotient(quotient(index(COLUMN), 2), 3) == ZERO
    odd = affine({ROW: 5, COLUMN: 1})
    assert quotient(quotient(odd, 2), 4) == Quotient(odd, 8)
    assert remainder(remainder(index(COLUMN), 4), 2) == Remainder(index(COLUMN), 2)
    assert quotient(remainder(odd, 8), 2) == Remainder(Quotient(odd, 2), 4)


def test_common_factors_are_left_out() -> None:
    assert quotient(affine({COLUMN: 2}, 1), 4) == Quotient(index(COLUMN), 2)
    assert remainder(affine({COLUMN: 2}, 1), 4) == Mixed(
        ((Remainder(index(COLUMN), 2), 2),), affine({}, 1)
    )


def test_a_diagonal_comes_apart() -> None:
    """Whose flat places are an index times one more than a row."""
    assert unravelled(affine({ROW: 5}), (4, 4)) == (index(ROW), index(ROW))


def test_what_a_position_is_made_of_is_found() -> None:
    position = position_sum([(Remainder(Quotient(index(COLUMN), 2), 2), 3), (index(ROW), 1)])
    assert list(nested_divisions(position)) == [
        Remainder(Quotient(index(COLUMN), 2), 2), Quotient(index(COLUMN), 2)
    ]  # fmt: skip
    assert list(sums(position)) == [index(COLUMN), index(ROW)]


A, B = LoopIndex("a", 3), LoopIndex("b", 4)


def test_a_position_reaches_from_its_lowest_to_its_highest_value() -> None:
    at = affine({A: 2, B: -1}, 1)
    assert value_bounds(at, lambda one: one.size) == (-2, 5)
    assert value_bounds(Remainder(at, 3), lambda one: one.size) == (0, 2)


def test_indices_replaced_by_positions_are_multiplied_out() -> None:
    assert substitute_indices(affine({A: 4, B: 1}), {A: affine({B: 2}, 1)}) == affine({B: 9}, 4)


def test_a_flattened_place_is_solved_by_dividing() -> None:
    place = index(LoopIndex("f", 12))
    assert solve_indices([affine({A: 4, B: 1})], [place]) == {
        A: Quotient(place, 4),
        B: Remainder(place, 4),
    }


def test_places_that_leave_gaps_are_not_solved() -> None:
    assert solve_indices([affine({A: 5, B: 1})], [index(LoopIndex("f", 12))]) is None
