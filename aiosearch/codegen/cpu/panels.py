"""Prints the copy of a tile into panels, as products of it read it best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ir import Index, Load, Stage, alone
from .elements import Elements, Spot
from .linear import Linear, linear
from .packed import Packed
from .ranges import Range
from .writer import Value, Whole

Places = Mapping[Index, Linear]


@dataclass
class PanelPrinter:
    """A stage that does nothing but copy an input's tile."""

    stage: Stage
    ranges: Mapping[Index, Range]
    target: Packed
    lanes: int
    elements: Elements

    def print(self) -> None:
        layout = self.target.layout
        own = [alone(position) for position in self.stage.at]
        batch = [
            one
            for axis, one in enumerate(own)
            if one is not None and axis not in (layout.row, layout.column)
        ]
        self._batch(batch, {})

    @property
    def _row(self) -> Index:
        return self._index(self.target.layout.row)

    @property
    def _column(self) -> Index:
        return self._index(self.target.layout.column)

    def _index(self, axis: int) -> Index:
        found = alone(self.stage.at[axis])
        assert found is not None
        return found

    def _batch(self, left: Sequence[Index], places: Places) -> None:
        if not left:
            self._rows(places)
            return
        one, *rest = left
        own = self.ranges[one]

        def turn(at: Whole, _: list[Value]) -> Sequence[Value]:
            self._batch(rest, {**places, one: own.base + linear(at)})
            return ()

        self.elements.writer.loop(0, own.extent, 1, (), turn)

    def _rows(self, places: Places) -> None:
        own, writer = self.ranges[self._row], self.elements.writer
        step = 2 if self.target.pairs else 1
        count = writer.divide(own.extent, step)

        def turn(at: Whole, _: list[Value]) -> Sequence[Value]:
            self._columns({**places, self._row: own.base + linear(at) * step}, whole=True)
            return ()

        writer.loop(0, count, 1, (), turn)
        if own.rests(step):
            last = {**places, self._row: own.base + linear(count) * step}

            def alone_left(_: list[Value]) -> Sequence[Value]:
                self._columns(last, whole=False)
                return ()

            writer.when(writer.below(0, writer.remainder(own.extent, step)), (), alone_left)

    def _columns(self, places: Places, *, whole: bool) -> None:
        own, writer, lanes = self.ranges[self._column], self.elements.writer, self.lanes
        count = writer.divide(own.extent, lanes)

        def turn(at: Whole, _: list[Value]) -> Sequence[Value]:
            self._vector({**places, self._column: own.base + linear(at) * lanes}, None, whole)
            return ()

        writer.loop(0, count, 1, (), turn)
        if own.rests(lanes):
            left = writer.remainder(own.extent, lanes)

            def some(_: list[Value]) -> Sequence[Value]:
                at = {**places, self._column: own.base + linear(count) * lanes}
                self._vector(at, self.elements.first(left, lanes), whole)
                return ()

            writer.when(writer.below(0, left), (), some)

    def _vector(self, places: Places, mask: Value | None, whole: bool) -> None:
        """Lanes of one row, or of two that are interleaved; zero where there is nothing."""
        self.elements.known.clear()
        spot = Spot(places, self._column, self.lanes, mask)
        value = self._read(spot)
        if self.target.pairs:
            below = {**places, self._row: places[self._row] + 1}
            second = (
                self._read(Spot(below, self._column, self.lanes, mask))
                if whole
                else self.elements.arithmetic.constant(0, value.scalar, self.lanes)
            )
            value = self.elements.interleaved(value, second)
        load = Load(self.stage.target, self.stage.at)
        offset, _ = self.elements.unpacked(self.target, load, spot)
        self.elements.memory.store(self.target.flat, offset, value, None)
        self.elements.known.clear()

    def _read(self, spot: Spot) -> Value:
        """As it is stored."""
        load = self.stage.value
        assert isinstance(load, Load)
        return self.elements.stored(load, spot)
