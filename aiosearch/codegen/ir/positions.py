"""Positions along an axis: whole numbers that depend on loop indices.

With `i` below 4 and `j` below 8, `8i + j` is an `Affine`, its quotient by 3 a `Quotient`, and `2i +
(j) / 4` a `Mixed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class LoopIndex:
    """A variable that runs from zero up to `size`; no other index of a kernel has its name."""

    name: str
    size: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of indices, each times a factor, and a constant; no factor is zero: `8i + j + 3`."""

    terms: tuple[tuple[LoopIndex, int], ...] = ()
    """Each index once, sorted by name."""
    offset: int = 0

    def __str__(self) -> str:
        parts = [
            str(loop_index) if factor == 1 else f"{factor}{loop_index}"
            for loop_index, factor in self.terms
        ]
        if self.offset or not parts:
            parts.append(str(self.offset))
        return " + ".join(parts)


@dataclass(frozen=True, slots=True)
class Quotient:
    """`position` divided by the number `by`, rounded down."""

    position: Position
    by: int

    def __str__(self) -> str:
        return f"({self.position}) / {self.by}"


@dataclass(frozen=True, slots=True)
class Remainder:
    """What `position` leaves when it is divided by `by`; never below zero."""

    position: Position
    by: int

    def __str__(self) -> str:
        return f"({self.position}) % {self.by}"


@dataclass(frozen=True, slots=True)
class Mixed:
    """A sum of quotients and remainders, each times a factor, and the affine `rest`."""

    terms: tuple[tuple[Quotient | Remainder, int], ...]
    rest: Affine = Affine()

    def __str__(self) -> str:
        parts = [f"{factor}·{division}" for division, factor in self.terms]
        return " + ".join([*parts, str(self.rest)])


Position: TypeAlias = Affine | Quotient | Remainder | Mixed


def index(loop_index: LoopIndex, factor: int = 1, offset: int = 0) -> Affine:
    """The position of a single index."""
    return affine({loop_index: factor}, offset)


def affine(terms: Mapping[LoopIndex, int], offset: int = 0) -> Affine:
    """The `Affine` of these terms, in the order by names that equal positions share."""
    nonzero = [(loop_index, factor) for loop_index, factor in terms.items() if factor]
    return Affine(tuple(sorted(nonzero, key=lambda term: term[0].name)), offset)


def indices(position: Position) -> Iterator[LoopIndex]:
    """The indices that `position` depends on; some more than once."""
    match position:
        case Affine():
            yield from (part for part, _ in position.terms)
        case Mixed():
            for part, _ in position.terms:
                yield from indices(part)
            yield from indices(position.rest)
        case _:
            yield from indices(position.position)


def single_index(position: Position) -> LoopIndex | None:
    """The index, where `position` is an index as it is, else None."""
    match position:
        case Affine(terms=((loop_index, 1),), offset=0):
            return loop_index
    return None
