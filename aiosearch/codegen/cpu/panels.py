"""Prints the copy of a tile into panels, as products of it read it best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..ir import Index
from .copies import Copy
from .linear import Linear, linear
from .spots import Places, Spot
from .squares import SquarePrinter, in_squares
from .values import Value


class PanelPrinter:
    """Row by row where columns lie close together, and in turned squares where rows do."""

    def __init__(self, copy: Copy) -> None:
        self._copy = copy
        self._lanes = copy.lanes
        self._access = copy.access
        self._writer = copy.access.vectors.writer
        self._target = copy.target
        self._row, self._column = copy.row, copy.column
        self._matrix = SquarePrinter(copy).print if in_squares(copy) else self._rows

    def print(self) -> None:
        own = (self._row, self._column)
        self._batch([one for one in self._copy.stage.free if one not in own], {})

    def _batch(self, left: Sequence[Index], places: Places) -> None:
        if not left:
            self._matrix(places)
            return
        one, *rest = left
        own = self._copy.ranges[one]
        own.steps(self._writer, 0, own.extent, 1, lambda at: self._batch(rest, {**places, one: at}))

    def _rows(self, places: Places) -> None:
        """One by one, or two by two, where the last may be alone."""
        writer, row, step = self._writer, self._row, 1 + self._target.pairs
        own = self._copy.ranges[row]
        count = writer.divide(own.extent, step)
        own.steps(writer, 0, count, step, lambda at: self._columns({**places, row: at}, True))
        if own.rests(step):
            last = {**places, row: own.base + linear(count) * step}
            odd = writer.below(0, writer.remainder(own.extent, step))
            writer.only_when(odd, lambda: self._columns(last, False))

    def _columns(self, places: Places, whole: bool) -> None:
        """Panel by panel, and what is left of whole ones vector by vector."""
        writer, column, lanes = self._writer, self._column, self._lanes
        own, width = self._copy.ranges[column], self._target.layout.width
        assert width % lanes == 0, "a panel is of whole vectors"

        def vectors(many: int, mask: Value | None = None) -> Callable[[Linear], None]:
            def body(at: Linear) -> None:
                for number in range(many):
                    self._vector({**places, column: at + number * lanes}, whole, mask)

            return body

        panels, count = writer.divide(own.extent, width), writer.divide(own.extent, lanes)
        own.steps(writer, 0, panels, width, vectors(width // lanes))
        if any(rest >= lanes for rest in own.rests(width)):
            done = writer.multiply(panels, width // lanes)
            own.steps(writer, done, count, lanes, vectors(1))
        if own.rests(lanes):
            last, left = own.base + linear(count) * lanes, writer.remainder(own.extent, lanes)
            writer.only_when(
                writer.below(0, left),
                lambda: vectors(1, self._access.vectors.first(left, lanes))(last),
            )

    def _vector(self, places: Places, whole: bool, mask: Value | None = None) -> None:
        """Lanes of one row, or of two that are interleaved; zero where there is nothing."""
        access, spot = self._access, Spot(places, self._column, self._lanes, mask)
        access.forget()
        value = self._read(spot)
        if self._target.pairs:
            value = access.vectors.interleaved(value, self._below(spot, whole, value.scalar))
        offset, _ = access.in_panels(self._target, self._copy.made, spot)
        access.memory.store(self._target.flat, offset, value, None)
        access.forget()

    def _below(self, spot: Spot, whole: bool, scalar: str) -> Value:
        """The row behind, if it is there."""
        if not whole:
            return self._access.vectors.constant(0, scalar, self._lanes)
        places = {**spot.places, self._row: spot.places[self._row] + 1}
        return self._read(replace(spot, places=places))

    def _read(self, spot: Spot) -> Value:
        """As it is stored there."""
        return self._copy.written(self._access.stored(self._copy.read, spot))
