"""How a tensor lies: the index parts of each axis with their sizes, and what may become of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from aiosearch.superoptimizer.algebra.normal_form import BITS, LOOP, REST, Mask
from aiosearch.tensor import Dim

Piece: TypeAlias = tuple[Mask, int]
"""An index part and its size."""
Laid: TypeAlias = tuple[tuple[Piece, ...], ...]
"""The pieces of each axis, outermost first."""


class OutsideError(Exception):
    """Something that the declared space has not; the message says what."""


def label_of(piece: Mask) -> int:
    return (piece.bit_length() - 1) // BITS


def mask_of(pieces: Sequence[Piece]) -> Mask:
    return sum(piece for piece, _ in pieces)


def union(masks: Iterator[Mask]) -> Mask:
    found = 0
    for mask in masks:
        found |= mask
    return found


def parted(
    pieces: tuple[Piece, ...], size: int, what: str
) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """The outer pieces that are folded, and those that are left."""
    for at in range(len(pieces) + 1):
        if math.prod(own for _, own in pieces[at:]) == size:
            return pieces[:at], pieces[at:]
    raise OutsideError(f"{what} within an index")


def less(pieces: tuple[Piece, ...], part: Mask, count: Dim) -> tuple[Piece, ...]:
    """An axis whose outermost piece is cut."""
    (first, size), *rest = pieces
    if not isinstance(count, int) or size % count:
        raise OutsideError("parts that are not whole")
    return ((part << BITS * label_of(first), size // count), *rest)


def together(one: Laid, two: Laid) -> Laid:
    """The axes of a pointwise result."""
    if not one or not two:
        return one or two
    for a, b in zip(one, two, strict=True):
        if a and b and a != b:
            raise unlike(a, b)
    return tuple(a or b for a, b in zip(one, two, strict=True))


def unlike(one: Sequence[Piece], two: Sequence[Piece]) -> OutsideError:
    """Why axes may meet that run over different indices."""
    pieces = (*one, *two)
    if any(piece >> BITS * label_of(piece) & (LOOP | REST) == 0 for piece, _ in pieces):
        return OutsideError("partial sums used before they are added up")
    if any(size == 1 for _, size in pieces):
        return OutsideError("what holds at these sizes only")
    return OutsideError("axes that meet and run over different indices")
