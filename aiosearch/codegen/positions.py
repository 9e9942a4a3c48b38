"""Arithmetic of positions: sums, quotients and remainders, simplified by how far indices run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from .ir import Affine, Index, Mixed, Position, Quotient, Remainder, affine, index

Atom: TypeAlias = Index | Quotient | Remainder
Sum: TypeAlias = dict[Atom, int]
"""What is added up to a position, each with its factor, but for the constant."""

ZERO = Affine()


def total(parts: Iterable[tuple[Position, int]], offset: int = 0) -> Position:
    """The sum of positions, each times a factor, and a constant."""
    found: Sum = {}
    for position, factor in parts:
        atoms, rest = _atoms(position)
        offset += rest * factor
        for atom, own in atoms.items():
            found[atom] = found.get(atom, 0) + own * factor
    return _position(found, offset)


def shifted(position: Position, by: int) -> Position:
    return total([(position, 1)], by)


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
        ends = [factor * end for end in _ends(atom)]
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
    return total([(whole, 1), (_quotient(small, by // common), 1)])


def remainder(position: Position, by: int) -> Position:
    """What a division by a number leaves, never below zero."""
    if by == 1:
        return ZERO
    _, rest = _divided(position, by)
    low, high = bounds(rest)
    if low // by == high // by:
        return shifted(rest, -(low // by) * by)
    common, small, left = _reduced(rest, by)
    return total([(_remainder(small, by // common), common)], left)


def row_major(places: Sequence[Position], shape: Sequence[int]) -> Position:
    """The place in an array laid out flat of an element."""
    parts, stride = [], 1
    for place, size in zip(reversed(places), reversed(shape), strict=True):
        parts.append((place, stride))
        stride *= size
    return total(parts)


def unravelled(flat: Position, shape: Sequence[int]) -> tuple[Position, ...]:
    """The places along the axes of an element, given its place in the array laid out flat."""
    found: list[Position] = []
    for size in reversed(shape[1:]):
        found.append(remainder(flat, size))
        flat = quotient(flat, size)
    return (*([flat] if shape else []), *reversed(found))


def substituted(position: Position, others: Mapping[Index, Position]) -> Position:
    """The position with other positions for some indices."""
    match position:
        case Quotient():
            return quotient(substituted(position.position, others), position.by)
        case Remainder():
            return remainder(substituted(position.position, others), position.by)
    atoms, offset = _atoms(position)
    return total(((_instead(atom, others), factor) for atom, factor in atoms.items()), offset)


def divisions(position: Position) -> Iterator[Quotient | Remainder]:
    """Every quotient and remainder in a position, outer ones first."""
    match position:
        case Quotient() | Remainder():
            yield position
            yield from divisions(position.position)
        case Mixed():
            for one, _ in position.terms:
                yield from divisions(one)


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
    plain = {one: factor for one, factor in atoms.items() if isinstance(one, Index)}
    rest = affine(plain, offset)
    others = [(one, f) for one, f in atoms.items() if f and not isinstance(one, Index)]
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


def _ends(atom: Atom) -> tuple[int, int]:
    return (0, max(atom.size - 1, 0)) if isinstance(atom, Index) else bounds(atom)


def _instead(atom: Atom, others: Mapping[Index, Position]) -> Position:
    if isinstance(atom, Index):
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
