"""Operators that only move elements (broadcast, reshape, transpose, slice), as maps from the
result's positions to the operand's.

`Transpose((1, 0)).places((i, j))` is `(j, i)`: the element at `[i, j]` of the result is read at
`[j, i]`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from . import Position, affine
from .affine_maps import ZERO, position_sum, row_major, unravelled

AxisPositions: TypeAlias = tuple[Position, ...]
"""A position for each axis of an array."""


class Move(ABC):
    """Where the elements of a result come from."""

    __slots__ = ()

    @abstractmethod
    def places(self, at: AxisPositions) -> AxisPositions:
        """Where the operand is read for the element at `at` of the result."""


@dataclass(frozen=True, slots=True)
class Broadcast(Move):
    """Repeats axes of size one of an operand of shape `old`; what has no axes is repeated along
    all.
    """

    old: tuple[int, ...]

    def places(self, at: AxisPositions) -> AxisPositions:
        return broadcast_places(self.old, at)


@dataclass(frozen=True, slots=True)
class Reshape(Move):
    """The axes `new` in place of `old`, over the same elements in row-major order."""

    old: tuple[int, ...]
    new: tuple[int, ...]

    def places(self, at: AxisPositions) -> AxisPositions:
        """Where the operand is read for the element at `at` of the result."""
        # An array without elements is read nowhere, and the products of sizes below would not tell
        # axes apart.
        if 0 in self.old:
            return tuple(ZERO for _ in self.old)
        places: list[Position] = []
        for left, right in _groups(self.old, self.new):
            # Only within a group of axes are elements renumbered: a reshape of [6, 4, 5] to [24, 5]
            # leaves the last axis alone.
            flat = row_major(at[right], self.new[right])
            places += (
                at[right] if _is_unchanged(self, left, right) else unravelled(flat, self.old[left])
            )
        return tuple(places)


@dataclass(frozen=True, slots=True)
class Transpose(Move):
    """The axes of the operand in the order of `axes`."""

    axes: tuple[int, ...]

    def places(self, at: AxisPositions) -> AxisPositions:
        return tuple(at[self.axes.index(axis)] for axis in range(len(self.axes)))


@dataclass(frozen=True, slots=True)
class Slice(Move):
    """A part of an axis, from `start` in steps of `step`."""

    axis: int
    start: int
    step: int

    def places(self, at: AxisPositions) -> AxisPositions:
        moved = position_sum([(at[self.axis], self.step)], self.start)
        return replace_axis(at, self.axis, moved)


@dataclass(frozen=True, slots=True)
class Diagonal(Move):
    """The elements whose last two positions are equal."""

    def places(self, at: AxisPositions) -> AxisPositions:
        return (*at, at[-1])


@dataclass(frozen=True, slots=True)
class Windows(Move):
    """Overlapping parts of an axis: the axis of windows at `axis`, the place within a window behind
    it.
    """

    axis: int
    stride: int
    dilation: int

    def places(self, at: AxisPositions) -> AxisPositions:
        place, within = at[self.axis], at[self.axis + 1]
        seen = position_sum([(place, self.stride), (within, self.dilation)])
        return (*at[: self.axis], seen, *at[self.axis + 2 :])


def replace_axis(at: AxisPositions, axis: int, place: Position) -> AxisPositions:
    """The positions with another one along `axis`."""
    return (*at[:axis], place, *at[axis + 1 :])


def broadcast_places(shape: Sequence[int], at: AxisPositions) -> AxisPositions:
    """Where an operand of a shape is read, broadcast to what is computed at `at`."""
    if not shape:
        return ()
    return tuple(affine({}) if size == 1 else place for size, place in zip(shape, at, strict=True))


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """The smallest runs of axes that have as many elements in `old` as in `new`."""
    left = right = 0
    while left < len(old) or right < len(new):
        first, second = left, right
        left, right = min(left + 1, len(old)), min(right + 1, len(new))
        while (old_count := math.prod(old[first:left])) != (
            new_count := math.prod(new[second:right])
        ):
            # Whichever side has fewer elements takes another axis, until both have as many.
            left, right = left + (old_count < new_count), right + (old_count > new_count)
        yield slice(first, left), slice(second, right)


def _is_unchanged(reshape: Reshape, left: slice, right: slice) -> bool:
    """Whether a group of axes is not reshaped at all."""
    return reshape.old[left] == reshape.new[right]
