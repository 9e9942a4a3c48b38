"""Copies of a tile into panels, row by row or by blocked transpose.

Prints the copy of a tile into panels where its rows, and not its columns, lie close together.

A square of both is read along the rows, turned in registers, and written along the columns. What
is left of whole squares goes element by element.

Prints the copy of a tile into panels, as products of it read it best.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from ...ir import BufferLoad, KernelStage, LoopIndex, single_index
from ...llvm.arithmetic import Arithmetic
from ...llvm.builder import LlvmValue
from ...llvm.linear import Linear, linear
from ...llvm.memory import STORED, Storage
from ..packing import PackedBuffer
from .access import BufferAccess
from .addressing import IndexPlaces, LaneAddress, TileRange


@dataclass(frozen=True)
class PanelCopy:
    stage: KernelStage
    ranges: Mapping[LoopIndex, TileRange]
    lanes: int
    access: BufferAccess
    arithmetic: Arithmetic

    @cached_property
    def target(self) -> PackedBuffer:
        found = self.access.storages[self.stage.target]
        assert isinstance(found, PackedBuffer), "it is of panels"
        return found

    @cached_property
    def read(self) -> BufferLoad:
        assert isinstance(self.stage.value, BufferLoad), "it is a copy"
        return self.stage.value

    @property
    def widens(self) -> bool:
        """Whether what it reads are halves, and it writes f32."""
        return self.read.buffer.dtype is not self.stage.target.dtype

    def written(self, stored: LlvmValue) -> LlvmValue:
        """Of what was read, what is written."""
        return self.arithmetic.widened(stored, self.read.buffer.dtype) if self.widens else stored

    @cached_property
    def made(self) -> BufferLoad:
        """What was read, as readers find it in the panels."""
        return BufferLoad(self.stage.target, self.stage.at)

    @cached_property
    def row(self) -> LoopIndex:
        return self._index(self.target.layout.row)

    @cached_property
    def column(self) -> LoopIndex:
        return self._index(self.target.layout.column)

    def _index(self, axis: int) -> LoopIndex:
        found = single_index(self.stage.at[axis])
        assert found is not None
        return found


pass


def is_transposed_copy(one: PanelCopy) -> bool:
    """Whether an input lies so, and panels are as wide as can be turned."""
    source = one.access.storages[one.read.buffer]
    if not isinstance(source, Storage):
        return False
    down, across = (one.access.stride(source, one.read.at, at) for at in (one.row, one.column))
    width = one.target.layout.width
    return (
        down == 1 and (across != 1 or width % one.lanes > 0) and is_transposable(width, one.lanes)
    )


def is_transposable(width: int, lanes: int) -> bool:
    """Whether so many columns are turned by vectors of so many lanes."""
    return width % lanes == 0 or (width < lanes and width & (width - 1) == 0)


class TransposePrinter:
    """An item is an element, or two of a column that are neighbours and stay so."""

    def __init__(self, copy: PanelCopy) -> None:
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

    def print(self, places: IndexPlaces) -> None:
        """Group by group; the last may be narrower."""
        column, group, writer = self._copy.column, self._group, self._writer
        own = self._copy.ranges[column]
        whole = writer.divide(own.extent, group)
        own.steps(writer, 0, whole, group, lambda at: self._squares({**places, column: at}, group))
        last = {**places, column: own.base + linear(whole) * group}
        for rest in own.rests(group):
            left = writer.remainder(own.extent, group)
            writer.only_when(writer.equal(left, rest), partial(self._squares, last, rest))

    def _squares(self, places: IndexPlaces, columns: int) -> None:
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

    def _square(self, places: IndexPlaces, columns: int) -> None:
        """As many rows as a vector has lanes."""
        self._access.forget()
        vectors = [self._read(places, at, self._lanes) for at in range(columns)]
        nothing = self._access.vectors.constant(0, vectors[0].scalar, self._lanes)
        vectors += [nothing] * (self._group - columns)
        for number, one in enumerate(self._turned(vectors)):
            rows, across = divmod(number * self._lanes, self._group)
            self._write(places, rows * self._each, across, one)
        self._access.forget()

    def _turned(self, vectors: Sequence[LlvmValue]) -> list[LlvmValue]:
        """Each round puts those that are half of them apart by turns."""
        found, half = list(vectors), len(vectors) // 2
        count = 1
        while count < len(found):
            pairs = zip(found[:half], found[half:], strict=True)
            found = [part for pair in pairs for part in self._access.vectors.by_turns(*pair)]
            count *= 2
        return found

    def _single(self, places: IndexPlaces, columns: int, *, whole: bool = True) -> None:
        """One row, or two that stay together, of which the second may not be there."""
        self._access.forget()
        for at in range(columns):
            self._write(places, 0, at, self._read(places, at, 1, whole=whole))
        self._access.forget()

    def _read(
        self, places: IndexPlaces, column: int, lanes: int, *, whole: bool = True
    ) -> LlvmValue:
        own = self._copy.column
        spot = LaneAddress({**places, own: places[own] + column})
        offset = self._access.offset(self._source, self._copy.read.at, spot)
        memory = self._access.memory
        if whole:
            return self._copy.written(memory.read(self._source, offset, self._item, lanes))
        alone = memory.read(self._source, offset, STORED[self._source.dtype][0])
        return self._writer.pure(f"zext {alone} to {self._item}", self._item)

    def _write(self, places: IndexPlaces, row: int, column: int, value: LlvmValue) -> None:
        own = self._copy
        spot = LaneAddress(
            {**places, own.row: places[own.row] + row, own.column: places[own.column] + column}
        )
        offset, odd = self._access.in_panels(self._target, own.made, spot)
        assert odd == Linear(), "pairs of rows begin at even ones"
        self._access.memory.store(self._target.flat, offset, value, None)


pass


pass


class PanelPrinter:
    """Row by row where columns lie close together, and in turned squares where rows do."""

    def __init__(self, copy: PanelCopy) -> None:
        self._copy = copy
        self._lanes = copy.lanes
        self._access = copy.access
        self._writer = copy.access.vectors.writer
        self._target = copy.target
        self._row, self._column = copy.row, copy.column
        self._matrix = TransposePrinter(copy).print if is_transposed_copy(copy) else self._rows

    def print(self) -> None:
        own = (self._row, self._column)
        self._batch([one for one in self._copy.stage.free if one not in own], {})

    def _batch(self, left: Sequence[LoopIndex], places: IndexPlaces) -> None:
        if not left:
            self._matrix(places)
            return
        one, *rest = left
        own = self._copy.ranges[one]
        own.steps(self._writer, 0, own.extent, 1, lambda at: self._batch(rest, {**places, one: at}))

    def _rows(self, places: IndexPlaces) -> None:
        """One by one, or two by two, where the last may be alone."""
        writer, row, step = self._writer, self._row, 1 + self._target.pairs
        own = self._copy.ranges[row]
        count = writer.divide(own.extent, step)
        own.steps(writer, 0, count, step, lambda at: self._columns({**places, row: at}, True))
        if own.rests(step):
            last = {**places, row: own.base + linear(count) * step}
            odd = writer.below(0, writer.remainder(own.extent, step))
            writer.only_when(odd, lambda: self._columns(last, False))

    def _columns(self, places: IndexPlaces, whole: bool) -> None:
        """Panel by panel, and what is left of whole ones vector by vector."""
        writer, column, lanes = self._writer, self._column, self._lanes
        own, width = self._copy.ranges[column], self._target.layout.width
        assert width % lanes == 0, "a panel is of whole vectors"

        def vectors(many: int, mask: LlvmValue | None = None) -> Callable[[Linear], None]:
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

    def _vector(self, places: IndexPlaces, whole: bool, mask: LlvmValue | None = None) -> None:
        """Lanes of one row, or of two that are interleaved; zero where there is nothing."""
        access, spot = self._access, LaneAddress(places, self._column, self._lanes, mask)
        access.forget()
        value = self._read(spot)
        if self._target.pairs:
            value = access.vectors.interleaved(value, self._below(spot, whole, value.scalar))
        offset, _ = access.in_panels(self._target, self._copy.made, spot)
        access.memory.store(self._target.flat, offset, value, None)
        access.forget()

    def _below(self, spot: LaneAddress, whole: bool, scalar: str) -> LlvmValue:
        """The row behind, if it is there."""
        if not whole:
            return self._access.vectors.constant(0, scalar, self._lanes)
        places = {**spot.places, self._row: spot.places[self._row] + 1}
        return self._read(replace(spot, places=places))

    def _read(self, spot: LaneAddress) -> LlvmValue:
        """As it is stored there."""
        return self._copy.written(self._access.stored(self._copy.read, spot))
