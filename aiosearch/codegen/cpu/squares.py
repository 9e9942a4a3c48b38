"""Prints the copy of a tile into panels where its rows, and not its columns, lie close together.

A square of both is read along the rows, turned in registers, and written along the columns. What
is left of whole squares goes element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .copies import Copy
from .linear import Linear, linear
from .memory import STORED, Storage
from .spots import Places, Spot
from .values import Value


def in_squares(one: Copy) -> bool:
    """Whether an input lies so, and panels are as wide as can be turned."""
    source = one.access.storages[one.read.buffer]
    if not isinstance(source, Storage):
        return False
    down, across = (one.access.stride(source, one.read.at, at) for at in (one.row, one.column))
    width = one.target.layout.width
    return down == 1 and (across != 1 or width % one.lanes > 0) and turnable(width, one.lanes)


def turnable(width: int, lanes: int) -> bool:
    """Whether so many columns are turned by vectors of so many lanes."""
    return width % lanes == 0 or (width < lanes and width & (width - 1) == 0)


class SquarePrinter:
    """An item is an element, or two of a column that are neighbours and stay so."""

    def __init__(self, copy: Copy) -> None:
        self._copy, self._target, self._lanes = copy, copy.target, copy.lanes
        self._access, self._writer = copy.access, copy.access.vectors.writer
        source = self._access.storages[copy.read.buffer]
        assert isinstance(source, Storage), "it was asked before"
        self._source = source
        self._group = min(self._target.layout.width, copy.lanes)
        """So many columns are turned at once."""
        self._each = 1 + self._target.pairs
        self._item = "i32" if self._target.pairs else STORED[source.dtype][0]
        assert not (self._target.pairs and copy.widens), "pairs are of halves"

    def print(self, places: Places) -> None:
        """Group by group; the last may be narrower."""
        column, group, writer = self._copy.column, self._group, self._writer
        own = self._copy.ranges[column]
        whole = writer.divide(own.extent, group)
        own.steps(writer, 0, whole, group, lambda at: self._squares({**places, column: at}, group))
        last = {**places, column: own.base + linear(whole) * group}
        for rest in own.rests(group):
            left = writer.remainder(own.extent, group)
            writer.only_when(writer.equal(left, rest), partial(self._squares, last, rest))

    def _squares(self, places: Places, columns: int) -> None:
        """Of so many columns, down all rows."""
        row, writer, each = self._copy.row, self._writer, self._each
        own = self._copy.ranges[row]
        deep = self._lanes * each
        whole, items = writer.divide(own.extent, deep), writer.divide(own.extent, each)
        own.steps(writer, 0, whole, deep, lambda at: self._square({**places, row: at}, columns))
        if own.rests(deep):
            done = writer.multiply(whole, self._lanes)
            own.steps(
                writer, done, items, each, lambda at: self._single({**places, row: at}, columns)
            )
        if own.rests(each):
            last = {**places, row: own.base + linear(items) * each}
            odd = writer.below(0, writer.remainder(own.extent, each))
            writer.only_when(odd, partial(self._single, last, columns, whole=False))

    def _square(self, places: Places, columns: int) -> None:
        """As many rows as a vector has lanes."""
        self._access.forget()
        vectors = [self._read(places, at, self._lanes) for at in range(columns)]
        nothing = self._access.vectors.constant(0, vectors[0].scalar, self._lanes)
        vectors += [nothing] * (self._group - columns)
        for number, one in enumerate(self._turned(vectors)):
            rows, across = divmod(number * self._lanes, self._group)
            self._write(places, rows * self._each, across, one)
        self._access.forget()

    def _turned(self, vectors: Sequence[Value]) -> list[Value]:
        """Each round puts those that are half of them apart by turns."""
        found, half = list(vectors), len(vectors) // 2
        count = 1
        while count < len(found):
            pairs = zip(found[:half], found[half:], strict=True)
            found = [part for pair in pairs for part in self._access.vectors.by_turns(*pair)]
            count *= 2
        return found

    def _single(self, places: Places, columns: int, *, whole: bool = True) -> None:
        """One row, or two that stay together, of which the second may not be there."""
        self._access.forget()
        for at in range(columns):
            self._write(places, 0, at, self._read(places, at, 1, whole=whole))
        self._access.forget()

    def _read(self, places: Places, column: int, lanes: int, *, whole: bool = True) -> Value:
        own = self._copy.column
        spot = Spot({**places, own: places[own] + column})
        offset = self._access.offset(self._source, self._copy.read.at, spot)
        memory = self._access.memory
        if whole:
            return self._copy.written(memory.read(self._source, offset, self._item, lanes))
        alone = memory.read(self._source, offset, STORED[self._source.dtype][0])
        return self._writer.pure(f"zext {alone} to {self._item}", self._item)

    def _write(self, places: Places, row: int, column: int, value: Value) -> None:
        own = self._copy
        spot = Spot(
            {**places, own.row: places[own.row] + row, own.column: places[own.column] + column}
        )
        offset, odd = self._access.in_panels(self._target, own.made, spot)
        assert odd == Linear(), "pairs of rows begin at even ones"
        self._access.memory.store(self._target.flat, offset, value, None)
