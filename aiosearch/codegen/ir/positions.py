"""Where along an axis: whole numbers that depend on indices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class LoopIndex:
    """A variable that runs from zero up to a size. Its name is its own within a kernel."""

    name: str
    size: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of indices, each times a factor, and a constant. The factors are not zero."""

    terms: tuple[tuple[LoopIndex, int], ...] = ()
    """Each index once, by name."""
    offset: int = 0

    def __str__(self) -> str:
        parts = [str(one) if factor == 1 else f"{factor}{one}" for one, factor in self.terms]
        if self.offset or not parts:
            parts.append(str(self.offset))
        return " + ".join(parts)


@dataclass(frozen=True, slots=True)
class Quotient:
    """A position divided by a number, rounded down."""

    position: Position
    by: int

    def __str__(self) -> str:
        return f"({self.position}) / {self.by}"


@dataclass(frozen=True, slots=True)
class Remainder:
    """What a division leaves; never below zero."""

    position: Position
    by: int

    def __str__(self) -> str:
        return f"({self.position}) % {self.by}"


@dataclass(frozen=True, slots=True)
class Mixed:
    """A sum of positions that are not affine, each times a factor, and an affine rest."""

    terms: tuple[tuple[Quotient | Remainder, int], ...]
    rest: Affine = Affine()

    def __str__(self) -> str:
        parts = [f"{factor}·{one}" for one, factor in self.terms]
        return " + ".join([*parts, str(self.rest)])


Position: TypeAlias = Affine | Quotient | Remainder | Mixed


def index(one: LoopIndex, factor: int = 1, offset: int = 0) -> Affine:
    """The position of one index alone."""
    return affine({one: factor}, offset)


def affine(terms: Mapping[LoopIndex, int], offset: int = 0) -> Affine:
    """In the order by names that equal positions share."""
    kept = [(one, factor) for one, factor in terms.items() if factor]
    return Affine(tuple(sorted(kept, key=lambda term: term[0].name)), offset)


def indices(position: Position) -> Iterator[LoopIndex]:
    """Those that a position depends on; some more than once."""
    match position:
        case Affine():
            yield from (one for one, _ in position.terms)
        case Mixed():
            for one, _ in position.terms:
                yield from indices(one)
            yield from indices(position.rest)
        case _:
            yield from indices(position.position)


def single_index(position: Position) -> LoopIndex | None:
    """The index, where a position is one as it is."""
    match position:
        case Affine(terms=((one, 1),), offset=0):
            return one
    return None
