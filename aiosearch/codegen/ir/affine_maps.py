"""Arithmetic of positions: sums, quotients and remainders of loop indices, simplified by the
indices' ranges.

Arithmetic on positions: indices replaced by others, how far they reach, where they come from.
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
Sum: TypeAlias = dict[Atom, int]
"""What is added up to a position, each with its factor, but for the constant."""

ZERO = Affine()


def position_sum(parts: Iterable[tuple[Position, int]], offset: int = 0) -> Position:
    """The sum of positions, each times a factor, and a constant."""
    found: Sum = {}
    for position, factor in parts:
        atoms, rest = _atoms(position)
        offset += rest * factor
        for atom, own in atoms.items():
            found[atom] = found.get(atom, 0) + own * factor
    return _position(found, offset)


def shifted(position: Position, by: int) -> Position:
    return position_sum([(position, 1)], by)


def bounds(position: Position) -> tuple[int, int]:
    """The least and the greatest place, as far as sizes tell."""
    match position:
        case Quotient():
            low, high = bounds(position.position)
            return low // position.by, high // position.by
        case Remainder():
            return 0, position.by - 1
    atoms, offset = _atoms(position)
    low = high = offset
    for atom, factor in atoms.items():
        ends = [factor * end for end in _atom_bounds(atom)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def quotient(position: Position, by: int) -> Position:
    """A position divided by a number, rounded down."""
    if by == 1:
        return position
    whole, rest = _divided(position, by)
    low, high = bounds(rest)
    if low // by == high // by:
        return shifted(whole, low // by)
    common, small, _ = _reduced(rest, by)
    return position_sum([(whole, 1), (_quotient(small, by // common), 1)])


def remainder(position: Position, by: int) -> Position:
    """What a division by a number leaves, never below zero."""
    if by == 1:
        return ZERO
    _, rest = _divided(position, by)
    low, high = bounds(rest)
    if low // by == high // by:
        return shifted(rest, -(low // by) * by)
    common, small, left = _reduced(rest, by)
    return position_sum([(_remainder(small, by // common), common)], left)


def row_major(places: Sequence[Position], shape: Sequence[int]) -> Position:
    """The place in an array laid out flat of an element."""
    parts, stride = [], 1
    for place, size in zip(reversed(places), reversed(shape), strict=True):
        parts.append((place, stride))
        stride *= size
    return position_sum(parts)


def unravelled(flat: Position, shape: Sequence[int]) -> tuple[Position, ...]:
    """The places along the axes of an element, given its place in the array laid out flat."""
    found: list[Position] = []
    for size in reversed(shape[1:]):
        found.append(remainder(flat, size))
        flat = quotient(flat, size)
    return (*([flat] if shape else []), *reversed(found))


def substituted(position: Position, others: Mapping[LoopIndex, Position]) -> Position:
    """The position with other positions for some indices."""
    match position:
        case Quotient():
            return quotient(substituted(position.position, others), position.by)
        case Remainder():
            return remainder(substituted(position.position, others), position.by)
    atoms, offset = _atoms(position)
    return position_sum(
        ((_substitute_atom(atom, others), factor) for atom, factor in atoms.items()), offset
    )


def nested_divisions(position: Position) -> Iterator[Quotient | Remainder]:
    """Every quotient and remainder in a position, outer ones first."""
    match position:
        case Quotient() | Remainder():
            yield position
            yield from nested_divisions(position.position)
        case Mixed():
            for one, _ in position.terms:
                yield from nested_divisions(one)


def sums(position: Position) -> Iterator[Affine]:
    """Every affine part of a position."""
    match position:
        case Affine():
            yield position
        case Mixed():
            for one, _ in position.terms:
                yield from sums(one)
            yield position.rest
        case _:
            yield from sums(position.position)


def _atoms(position: Position) -> tuple[Sum, int]:
    match position:
        case Affine():
            return dict(position.terms), position.offset
        case Mixed():
            return {**dict(position.terms), **dict(position.rest.terms)}, position.rest.offset
    return {position: 1}, 0


def _position(atoms: Sum, offset: int) -> Position:
    offset += _rejoin(atoms)
    plain = {one: factor for one, factor in atoms.items() if isinstance(one, LoopIndex)}
    rest = affine(plain, offset)
    others = [(one, f) for one, f in atoms.items() if f and not isinstance(one, LoopIndex)]
    if not others:
        return rest
    if rest == ZERO and len(others) == 1 and others[0][1] == 1:
        return others[0][0]
    return Mixed(tuple(sorted(others, key=str)), rest)


def _rejoin(atoms: Sum) -> int:
    """A number's quotient times what it was divided by, and its remainder, are the number again.

    Returns the constant that comes with it.
    """
    for left in [one for one in atoms if isinstance(one, Remainder)]:
        whole, factor = quotient(left.position, left.by), atoms[left]
        if isinstance(whole, Quotient) and factor and atoms.get(whole, 0) == factor * left.by:
            del atoms[left], atoms[whole]
            joined, offset = _atoms(left.position)
            for atom, own in joined.items():
                atoms[atom] = atoms.get(atom, 0) + own * factor
            return offset * factor + _rejoin(atoms)
    return 0


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    return (0, max(atom.size - 1, 0)) if isinstance(atom, LoopIndex) else bounds(atom)


def _substitute_atom(atom: Atom, others: Mapping[LoopIndex, Position]) -> Position:
    if isinstance(atom, LoopIndex):
        return others.get(atom) or index(atom)
    return substituted(atom, others)


def _divided(position: Position, by: int) -> tuple[Position, Position]:
    """How often a number goes into a position for sure, and the rest."""
    atoms, offset = _atoms(position)
    even = {atom: factor for atom, factor in atoms.items() if factor % by == 0}
    odd = {atom: factor for atom, factor in atoms.items() if factor % by}
    rest = _position(dict(odd), offset % by)
    low, high = bounds(rest)
    if low // by != high // by:
        smaller = _position({atom: factor % by for atom, factor in odd.items()}, offset % by)
        low, high = bounds(smaller)
        if low // by == high // by:
            even, rest = atoms, smaller
    whole = _position({atom: factor // by for atom, factor in even.items()}, offset // by)
    return whole, rest


def _reduced(position: Position, by: int) -> tuple[int, Position, int]:
    """What divides all factors and the number; the position over it; what that leaves out."""
    atoms, offset = _atoms(position)
    common = math.gcd(by, *atoms.values())
    smaller = {atom: factor // common for atom, factor in atoms.items()}
    return common, _position(smaller, offset // common), offset % common


def _quotient(position: Position, by: int) -> Position:
    match position:
        case _ if by == 1:
            return position
        case Quotient():
            return quotient(position.position, position.by * by)
        case Remainder() if position.by % by == 0:
            return remainder(quotient(position.position, by), position.by // by)
    return Quotient(position, by)


def _remainder(position: Position, by: int) -> Position:
    match position:
        case _ if by == 1:
            return ZERO
        case Remainder() if position.by % by == 0:
            return remainder(position.position, by)
    return Remainder(position, by)


IndexSubstitution = Mapping[LoopIndex, Position]


def substitute_indices(position: Position, places: IndexSubstitution) -> Position:
    """The position, where indices are replaced by positions."""
    match position:
        case Affine():
            return _substituted_sum(
                [(places.get(one, affine({one: 1})), factor) for one, factor in position.terms],
                position.offset,
            )
        case Quotient():
            return Quotient(substitute_indices(position.position, places), position.by)
        case Remainder():
            return Remainder(substitute_indices(position.position, places), position.by)
        case Mixed():
            terms = [(substitute_indices(one, places), factor) for one, factor in position.terms]
            return _substituted_sum([*terms, (substitute_indices(position.rest, places), 1)], 0)


def _substituted_sum(parts: Sequence[tuple[Position, int]], offset: int) -> Position:
    plain: dict[LoopIndex, int] = {}
    rough: dict[Quotient | Remainder, int] = {}
    for position, factor in parts:
        own = position if isinstance(position, Mixed) else None
        rest = own.rest if own else position
        for one, times in own.terms if own else ():
            rough[one] = rough.get(one, 0) + factor * times
        if isinstance(rest, Affine):
            offset += factor * rest.offset
            for each, times in rest.terms:
                plain[each] = plain.get(each, 0) + factor * times
        elif isinstance(rest, (Quotient, Remainder)):
            rough[rest] = rough.get(rest, 0) + factor
    terms = tuple((one, factor) for one, factor in rough.items() if factor)
    straight = affine(plain, offset)
    if not terms:
        return straight
    if straight == Affine() and len(terms) == 1 and terms[0][1] == 1:
        return terms[0][0]
    return Mixed(terms, straight)


def value_bounds(position: Position, count: Callable[[LoopIndex], int]) -> tuple[int, int]:
    """The lowest and the highest value that a position may take, or less and more.

    `count` says how many values each index takes.
    """
    match position:
        case Affine():
            spans = [(0, factor * (count(one) - 1)) for one, factor in position.terms]
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
            for one, factor in position.terms:
                ends = [factor * end for end in value_bounds(one, count)]
                low, high = low + min(ends), high + max(ends)
            return low, high


def solve_indices(
    target: Sequence[Position], wanted: Sequence[Position]
) -> dict[LoopIndex, Position] | None:
    """The values of its indices where a target is where it is wanted; None where unclear."""
    found: dict[LoopIndex, Position] = {}
    for at, place in zip(target, wanted, strict=True):
        own = _digits(at, place)
        if own is None or any(found.get(one, value) != value for one, value in own.items()):
            return None
        found |= own
    return found


def _digits(at: Position, place: Position) -> dict[LoopIndex, Position] | None:
    """A position as digits: each index counts how many of what the ones after it span."""
    one = single_index(at)
    if one is not None:
        return {one: place}
    if not isinstance(at, Affine) or at.offset:
        return None
    if at == place:
        return {each: affine({each: 1}) for each, _ in at.terms}
    found: dict[LoopIndex, Position] = {}
    terms = sorted(at.terms, key=lambda term: -term[1])
    if not terms:
        return found
    for (each, factor), (_, above) in zip(terms, [(None, None), *terms[:-1]], strict=True):
        if above is not None and above != factor * each.size:
            return None
        digit = Quotient(place, factor) if factor > 1 else place
        found[each] = digit if above is None else Remainder(digit, each.size)
    return found if terms[-1][1] == 1 else None
