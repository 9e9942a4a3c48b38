"""Operators that only move elements (broadcast, reshape, transpose, slice), as maps from the
result's positions to the operand's."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from . import Position, affine
from .affine_maps import ZERO, position_sum, row_major, unravelled

AxisPositions: TypeAlias = tuple[Position, ...]


class Move(ABC):
    """Where the elements come from."""

    __slots__ = ()

    @abstractmethod
    def places(self, at: AxisPositions) -> AxisPositions:
        """Where the operand is read for an element of the result."""


@dataclass(frozen=True, slots=True)
class Broadcast(Move):
    """Repeats axes of size one; what has no axes is repeated along all."""

    old: tuple[int, ...]

    def places(self, at: AxisPositions) -> AxisPositions:
        return broadcast_places(self.old, at)


@dataclass(frozen=True, slots=True)
class Reshape(Move):
    old: tuple[int, ...]
    new: tuple[int, ...]

    def places(self, at: AxisPositions) -> AxisPositions:
        if 0 in self.old:
            return tuple(ZERO for _ in self.old)
        found: list[Position] = []
        for left, right in _groups(self.old, self.new):
            flat = row_major(at[right], self.new[right])
            found += at[right] if _same(self, left, right) else unravelled(flat, self.old[left])
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Transpose(Move):
    axes: tuple[int, ...]

    def places(self, at: AxisPositions) -> AxisPositions:
        return tuple(at[self.axes.index(axis)] for axis in range(len(self.axes)))


@dataclass(frozen=True, slots=True)
class Slice(Move):
    axis: int
    start: int
    step: int

    def places(self, at: AxisPositions) -> AxisPositions:
        moved = position_sum([(at[self.axis], self.step)], self.start)
        return replace_axis(at, self.axis, moved)


@dataclass(frozen=True, slots=True)
class Diagonal(Move):
    def places(self, at: AxisPositions) -> AxisPositions:
        return (*at, at[-1])


@dataclass(frozen=True, slots=True)
class Windows(Move):
    axis: int
    stride: int
    dilation: int

    def places(self, at: AxisPositions) -> AxisPositions:
        place, within = at[self.axis], at[self.axis + 1]
        seen = position_sum([(place, self.stride), (within, self.dilation)])
        return (*at[: self.axis], seen, *at[self.axis + 2 :])


def replace_axis(at: AxisPositions, axis: int, place: Position) -> AxisPositions:
    """The same with another place along an axis."""
    return (*at[:axis], place, *at[axis + 1 :])


def broadcast_places(shape: Sequence[int], at: AxisPositions) -> AxisPositions:
    """Where an operand of a shape is read, broadcast to what is computed at other places."""
    if not shape:
        return ()
    return tuple(affine({}) if size == 1 else one for size, one in zip(shape, at, strict=True))


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """The smallest runs of axes that have as many elements before as after."""
    left = right = 0
    while left < len(old) or right < len(new):
        first, second = left, right
        left, right = min(left + 1, len(old)), min(right + 1, len(new))
        while (own := math.prod(old[first:left])) != (other := math.prod(new[second:right])):
            left, right = left + (own < other), right + (own > other)
        yield slice(first, left), slice(second, right)


def _same(reshape: Reshape, left: slice, right: slice) -> bool:
    return reshape.old[left] == reshape.new[right]
