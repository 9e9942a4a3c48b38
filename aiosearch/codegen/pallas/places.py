"""Arithmetic on positions: indices replaced by others, how far they reach, where they come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..ir import Affine, Index, Mixed, Position, Quotient, Remainder, affine, alone

Places = Mapping[Index, Position]


def moved(position: Position, places: Places) -> Position:
    """The position, where indices are replaced by positions."""
    match position:
        case Affine():
            return _sum(
                [(places.get(one, affine({one: 1})), factor) for one, factor in position.terms],
                position.offset,
            )
        case Quotient():
            return Quotient(moved(position.position, places), position.by)
        case Remainder():
            return Remainder(moved(position.position, places), position.by)
        case Mixed():
            terms = [(moved(one, places), factor) for one, factor in position.terms]
            return _sum([*terms, (moved(position.rest, places), 1)], 0)


def _sum(parts: Sequence[tuple[Position, int]], offset: int) -> Position:
    plain: dict[Index, int] = {}
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


def reach(position: Position, count: Callable[[Index], int]) -> tuple[int, int]:
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
            low, high = reach(position.position, count)
            return low // position.by, high // position.by
        case Remainder():
            low, high = reach(position.position, count)
            return (low, high) if low >= 0 and high < position.by else (0, position.by - 1)
        case Mixed():
            low, high = reach(position.rest, count)
            for one, factor in position.terms:
                ends = [factor * end for end in reach(one, count)]
                low, high = low + min(ends), high + max(ends)
            return low, high


def solved(target: Sequence[Position], wanted: Sequence[Position]) -> dict[Index, Position] | None:
    """The values of its indices where a target is where it is wanted; None where unclear."""
    found: dict[Index, Position] = {}
    for at, place in zip(target, wanted, strict=True):
        own = _digits(at, place)
        if own is None or any(found.get(one, value) != value for one, value in own.items()):
            return None
        found |= own
    return found


def _digits(at: Position, place: Position) -> dict[Index, Position] | None:
    """A position as digits: each index counts how many of what the ones after it span."""
    one = alone(at)
    if one is not None:
        return {one: place}
    if not isinstance(at, Affine) or at.offset:
        return None
    if at == place:
        return {each: affine({each: 1}) for each, _ in at.terms}
    found: dict[Index, Position] = {}
    terms = sorted(at.terms, key=lambda term: -term[1])
    if not terms:
        return found
    for (each, factor), (_, above) in zip(terms, [(None, None), *terms[:-1]], strict=True):
        if above is not None and above != factor * each.size:
            return None
        digit = Quotient(place, factor) if factor > 1 else place
        found[each] = digit if above is None else Remainder(digit, each.size)
    return found if terms[-1][1] == 1 else None
