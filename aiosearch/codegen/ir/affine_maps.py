"""Arithmetic of positions: sums, quotients and remainders of loop indices, simplified by the ranges
of the indices.

Problem: slices, reshapes and tiles of tensors are arithmetic on indices. If it stays as written,
every element costs divisions, and no pass sees that two stages read the same elements.

Worked example, with `i` below 4 and `j` below 8, so that `row_major([i, j], [4, 8])` is `8i + j`:
`quotient` by 8 is `i`, `remainder` by 8 is `j`, `quotient` by 4 is `2i + (j) / 4`, and `quotient`
by 3 stays `(8i + j) / 3`, as no factor is divisible.

Invariant: a position is a number for each value of its indices, which no function here changes;
equal sums have one spelling, with terms in order. `bounds` may be wide, never narrow: it sees each
index alone.

Cost: linear in the terms, times the depth of nested divisions.

See docs/why/kernels.md, "The tile IR".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from . import (
    Affine,
    LoopIndex,
    Mixed,
    Position,
    Quotient,
    Remainder,
    affine,
    index,
    single_index,
)

Atom: TypeAlias = LoopIndex | Quotient | Remainder
"""What is not a sum: a `LoopIndex`, or a `Quotient` or `Remainder` that could not be taken
apart."""
Sum: TypeAlias = dict[Atom, int]
"""What is added up to a position: each `Atom` with its factor, but for the constant."""

ZERO = Affine()
"""The first place of an axis."""


def position_sum(parts: Iterable[tuple[Position, int]], offset: int = 0) -> Position:
    """The sum of `parts`, each a position times a factor, and of the constant `offset`."""
    total: Sum = {}
    for position, factor in parts:
        atoms, constant = _atoms(position)
        offset += constant * factor
        for atom, count in atoms.items():
            total[atom] = total.get(atom, 0) + count * factor
    return _position(total, offset)


def shifted(position: Position, by: int) -> Position:
    """`position` plus the constant `by`."""
    return position_sum([(position, 1)], by)


def bounds(position: Position) -> tuple[int, int]:
    """The least and the greatest value of `position`, as far as the sizes of its indices tell."""
    match position:
        case Quotient():
            low, high = bounds(position.position)
            return low // position.by, high // position.by
        case Remainder():
            return 0, position.by - 1
    atoms, offset = _atoms(position)
    low = high = offset
    for atom, factor in atoms.items():
        # A negative factor swaps the ends; both are tried.
        ends = [factor * end for end in _atom_bounds(atom)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def quotient(position: Position, by: int) -> Position:
    """`position` divided by the number `by`, rounded down."""
    if by == 1:
        return position
    whole, left = _split_off(position, by)
    low, high = bounds(left)
    if low // by == high // by:
        return shifted(whole, low // by)
    common, small, _ = _without_common_factor(left, by)
    return position_sum([(whole, 1), (_quotient(small, by // common), 1)])


def remainder(position: Position, by: int) -> Position:
    """What `position` leaves when it is divided by `by`; never below zero."""
    if by == 1:
        return ZERO
    _, undivided = _split_off(position, by)
    low, high = bounds(undivided)
    if low // by == high // by:
        return shifted(undivided, -(low // by) * by)
    common, small, left = _without_common_factor(undivided, by)
    return position_sum([(_remainder(small, by // common), common)], left)


def row_major(places: Sequence[Position], shape: Sequence[int]) -> Position:
    """The position in a flat array of the element at `places` of an array of this shape."""
    parts, stride = [], 1
    for place, size in zip(reversed(places), reversed(shape), strict=True):
        parts.append((place, stride))
        stride *= size
    return position_sum(parts)


def unravelled(flat: Position, shape: Sequence[int]) -> tuple[Position, ...]:
    """The positions along the axes of an element whose position in the flat array is `flat`."""
    places: list[Position] = []
    # The first axis needs no remainder: `flat` is below the product of all sizes.
    for size in reversed(shape[1:]):
        places.append(remainder(flat, size))
        flat = quotient(flat, size)
    return (*([flat] if shape else []), *reversed(places))


def substituted(position: Position, replacements: Mapping[LoopIndex, Position]) -> Position:
    """`position` with other positions for the indices in `replacements`, simplified."""
    match position:
        case Quotient():
            return quotient(substituted(position.position, replacements), position.by)
        case Remainder():
            return remainder(substituted(position.position, replacements), position.by)
    atoms, offset = _atoms(position)
    return position_sum(
        ((_substitute_atom(atom, replacements), factor) for atom, factor in atoms.items()), offset
    )


def nested_divisions(position: Position) -> Iterator[Quotient | Remainder]:
    """Every `Quotient` and `Remainder` in a position, outer ones first."""
    match position:
        case Quotient() | Remainder():
            yield position
            yield from nested_divisions(position.position)
        case Mixed():
            for division, _ in position.terms:
                yield from nested_divisions(division)


def sums(position: Position) -> Iterator[Affine]:
    """Every `Affine` part of a position."""
    match position:
        case Affine():
            yield position
        case Mixed():
            for division, _ in position.terms:
                yield from sums(division)
            yield position.rest
        case _:
            yield from sums(position.position)


def _atoms(position: Position) -> tuple[Sum, int]:
    """The atoms of a position with their factors, and its constant."""
    match position:
        case Affine():
            return dict(position.terms), position.offset
        case Mixed():
            return {**dict(position.terms), **dict(position.rest.terms)}, position.rest.offset
    return {position: 1}, 0


def _position(atoms: Sum, offset: int) -> Position:
    """The position of a sum of atoms, in its one spelling."""
    offset += _rejoin(atoms)
    plain = {atom: factor for atom, factor in atoms.items() if isinstance(atom, LoopIndex)}
    linear = affine(plain, offset)
    divisions = [(atom, f) for atom, f in atoms.items() if f and not isinstance(atom, LoopIndex)]
    if not divisions:
        return linear
    if linear == ZERO and len(divisions) == 1 and divisions[0][1] == 1:
        return divisions[0][0]
    return Mixed(tuple(sorted(divisions, key=str)), linear)


def _rejoin(atoms: Sum) -> int:
    """Replaces a number's quotient times its divisor, plus its remainder, by the number.

    Returns the constant that comes with it: 4·((j + 1)/4) + (j + 1)%4 is j, and 1.
    """
    for left in [atom for atom in atoms if isinstance(atom, Remainder)]:
        whole, factor = quotient(left.position, left.by), atoms[left]
        if isinstance(whole, Quotient) and factor and atoms.get(whole, 0) == factor * left.by:
            del atoms[left], atoms[whole]
            joined, offset = _atoms(left.position)
            for atom, count in joined.items():
                atoms[atom] = atoms.get(atom, 0) + count * factor
            # The number may itself be half of another such pair, so the search begins again.
            return offset * factor + _rejoin(atoms)
    return 0


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    return (0, max(atom.size - 1, 0)) if isinstance(atom, LoopIndex) else bounds(atom)


def _substitute_atom(atom: Atom, replacements: Mapping[LoopIndex, Position]) -> Position:
    if isinstance(atom, LoopIndex):
        return replacements.get(atom) or index(atom)
    return substituted(atom, replacements)


def _split_off(position: Position, by: int) -> tuple[Position, Position]:
    """What surely divides: a position whose multiple by `by` is split off, and what is left."""
    atoms, offset = _atoms(position)
    # Terms whose factor `by` divides leave nothing, whatever their index is.
    even = {atom: factor for atom, factor in atoms.items() if factor % by == 0}
    odd = {atom: factor for atom, factor in atoms.items() if factor % by}
    left = _position(dict(odd), offset % by)
    low, high = bounds(left)
    if low // by != high // by:
        # If the left part might still reach `by`, factors are reduced modulo `by` as well: of 9i by
        # 8, 8i divides and i stays. It pays only if what stays is then below `by` for certain.
        smaller = _position({atom: factor % by for atom, factor in odd.items()}, offset % by)
        low, high = bounds(smaller)
        if low // by == high // by:
            even, left = atoms, smaller
    whole = _position({atom: factor // by for atom, factor in even.items()}, offset // by)
    return whole, left


def _without_common_factor(position: Position, by: int) -> tuple[int, Position, int]:
    """What divides all factors and the number; the position over it; and the constant that is left
    out.
    """
    atoms, offset = _atoms(position)
    # (4i + 6)/8 is (i + 1)/2 for any whole i: the common factor 4 is
    # taken out, and the constant gives up 2, which is below it.
    common = math.gcd(by, *atoms.values())
    smaller = {atom: factor // common for atom, factor in atoms.items()}
    return common, _position(smaller, offset // common), offset % common


def _quotient(position: Position, by: int) -> Position:
    """A quotient that no sum can be split off of: nested divisions are merged where that is
    exact.
    """
    match position:
        case _ if by == 1:
            return position
        case Quotient():
            return quotient(position.position, position.by * by)
        case Remainder() if position.by % by == 0:
            return remainder(quotient(position.position, by), position.by // by)
    return Quotient(position, by)


def _remainder(position: Position, by: int) -> Position:
    """A remainder that no sum can be split off of; of a remainder by a multiple only the inner
    number counts.
    """
    match position:
        case _ if by == 1:
            return ZERO
        case Remainder() if position.by % by == 0:
            return remainder(position.position, by)
    return Remainder(position, by)


IndexSubstitution = Mapping[LoopIndex, Position]
"""Positions by the `LoopIndex` that they replace."""


def substitute_indices(position: Position, places: IndexSubstitution) -> Position:
    """`position` with indices replaced as `places` says, without simplifying divisions."""
    match position:
        case Affine():
            return _substituted_sum(
                [(places.get(part, affine({part: 1})), factor) for part, factor in position.terms],
                position.offset,
            )
        case Quotient():
            return Quotient(substitute_indices(position.position, places), position.by)
        case Remainder():
            return Remainder(substitute_indices(position.position, places), position.by)
        case Mixed():
            terms = [(substitute_indices(part, places), factor) for part, factor in position.terms]
            return _substituted_sum([*terms, (substitute_indices(position.rest, places), 1)], 0)


def _substituted_sum(parts: Sequence[tuple[Position, int]], offset: int) -> Position:
    """Adds up positions; quotients and remainders stay as they are."""
    plain: dict[LoopIndex, int] = {}
    rough: dict[Quotient | Remainder, int] = {}
    for position, factor in parts:
        mixed = position if isinstance(position, Mixed) else None
        linear = mixed.rest if mixed else position
        for division, times in mixed.terms if mixed else ():
            rough[division] = rough.get(division, 0) + factor * times
        if isinstance(linear, Affine):
            offset += factor * linear.offset
            for loop_index, times in linear.terms:
                plain[loop_index] = plain.get(loop_index, 0) + factor * times
        elif isinstance(linear, (Quotient, Remainder)):
            rough[linear] = rough.get(linear, 0) + factor
    terms = tuple((division, factor) for division, factor in rough.items() if factor)
    straight = affine(plain, offset)
    if not terms:
        return straight
    if straight == Affine() and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    return Mixed(terms, straight)


def value_bounds(position: Position, count: Callable[[LoopIndex], int]) -> tuple[int, int]:
    """The lowest and the highest value that a position may take, or less and more.

    `count` says how many values each index takes, as in a tile that has only some of them.
    """
    match position:
        case Affine():
            # Indices begin at zero, so one end of each term is zero.
            spans = [(0, factor * (count(part) - 1)) for part, factor in position.terms]
            return (
                position.offset + sum(min(pair) for pair in spans),
                position.offset + sum(max(pair) for pair in spans),
            )
        case Quotient():
            low, high = value_bounds(position.position, count)
            return low // position.by, high // position.by
        case Remainder():
            low, high = value_bounds(position.position, count)
            return (low, high) if low >= 0 and high < position.by else (0, position.by - 1)
        case Mixed():
            low, high = value_bounds(position.rest, count)
            for part, factor in position.terms:
                ends = [factor * end for end in value_bounds(part, count)]
                low, high = low + min(ends), high + max(ends)
            return low, high


def solve_indices(
    target: Sequence[Position], sought: Sequence[Position]
) -> dict[LoopIndex, Position] | None:
    """The values of the indices of `target` at which it is `sought`; None where that is unclear.

    A stage that fills `t[8i + j]` and a reader of `t[k]` give `i` = k/8 and `j` = k%8.
    """
    solution: dict[LoopIndex, Position] = {}
    for at, place in zip(target, sought, strict=True):
        digits = _digits(at, place)
        if digits is None or any(
            solution.get(loop_index, value) != value for loop_index, value in digits.items()
        ):
            return None
        solution |= digits
    return solution


def _digits(at: Position, place: Position) -> dict[LoopIndex, Position] | None:
    """`place` as the digits of `at`: each index counts how many of what the ones after it span."""
    single = single_index(at)
    if single is not None:
        return {single: place}
    if not isinstance(at, Affine) or at.offset:
        return None
    if at == place:
        return {loop_index: affine({loop_index: 1}) for loop_index, _ in at.terms}
    digits: dict[LoopIndex, Position] = {}
    # From the most significant digit down: each factor has to be the size of all digits below it.
    terms = sorted(at.terms, key=lambda term: -term[1])
    if not terms:
        return digits
    for (loop_index, factor), (_, above) in zip(terms, [(None, None), *terms[:-1]], strict=True):
        # 8i + j with j below 8 is a number with the digits i and j. With j below 6 there would be
        # gaps, and below 10 two spellings of a number: neither can be inverted.
        if above is not None and above != factor * loop_index.size:
            return None
        digit = Quotient(place, factor) if factor > 1 else place
        digits[loop_index] = digit if above is None else Remainder(digit, loop_index.size)
    return digits if terms[-1][1] == 1 else None
