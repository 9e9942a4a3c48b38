"""Copies of a tile into panels, row by row or by blocked transpose.

A copy whose columns are contiguous in memory is made row by row, with vector loads. One whose rows
are contiguous is transposed: squares of as many vectors as a vector has lanes are loaded along the
rows, transposed in registers and stored along the columns; what is left of whole squares goes
element by element.

Example of the transpose of 4 vectors of 4 lanes, rows a, b, c, d: the first round interleaves a
with c and b with d, giving a0 c0 a1 c1, a2 c2 a3 c3, b0 d0 b1 d1, b2 d2 b3 d3; the second
interleaves the first with the third and the second with the fourth, giving a0 b0 c0 d0 and so on,
the columns. With n vectors, log2(n) rounds of n shuffles do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

from ...ir import BufferLoad, KernelStage, LoopIndex, single_index
from ...llvm.arithmetic import Arithmetic
from ...llvm.builder import LlvmValue, constant
from ...llvm.linear import Linear, linear
from ...llvm.memory import STORED, Storage
from ..packing import PackedBuffer
from .access import BufferAccess
from .addressing import IndexPlaces, LaneAddress, TileRange


@dataclass(frozen=True)
class PanelCopy:
    """A stage that copies an input's tile into panels."""

    stage: KernelStage
    ranges: Mapping[LoopIndex, TileRange]
    lanes: int
    access: BufferAccess
    arithmetic: Arithmetic

    @cached_property
    def target(self) -> PackedBuffer:
        """The packed buffer."""
        storage = self.access.storages[self.stage.target]
        assert isinstance(storage, PackedBuffer), "it is of panels"
        return storage

    @cached_property
    def read(self) -> BufferLoad:
        """The load that the `stage` copies."""
        assert isinstance(self.stage.value, BufferLoad), "it is a copy"
        return self.stage.value

    @property
    def widens(self) -> bool:
        """Whether 16-bit floats are read and f32 are written."""
        return self.read.buffer.dtype is not self.stage.target.dtype

    def written(self, stored: LlvmValue) -> LlvmValue:
        """The value to write for one that was read."""
        return self.arithmetic.widened(stored, self.read.buffer.dtype) if self.widens else stored

    @cached_property
    def written_load(self) -> BufferLoad:
        """The load by which readers find an element in the panels."""
        return BufferLoad(self.stage.target, self.stage.at)

    @cached_property
    def row(self) -> LoopIndex:
        """The index along the rows of panels."""
        return self._index(self.target.layout.row)

    @cached_property
    def column(self) -> LoopIndex:
        """The index that is cut into panels."""
        return self._index(self.target.layout.column)

    def _index(self, axis: int) -> LoopIndex:
        """The index of an `axis`."""
        index = single_index(self.stage.at[axis])
        assert index is not None
        return index


def is_transposed_copy(copy: PanelCopy) -> bool:
    """Whether the input is contiguous along the rows, and panels are as wide as can be
    transposed."""
    source = copy.access.storages[copy.read.buffer]
    if not isinstance(source, Storage):
        return False
    down, across = (copy.access.stride(source, copy.read.at, at) for at in (copy.row, copy.column))
    width = copy.target.layout.width
    return (
        down == 1 and (across != 1 or width % copy.lanes > 0) and is_transposable(width, copy.lanes)
    )


def is_transposable(width: int, lanes: int) -> bool:
    """Whether panels of this width can be transposed in vectors of so many lanes: whole vectors, or
    a power of two."""
    return width % lanes == 0 or (width < lanes and width & (width - 1) == 0)


class TransposePrinter:
    """Prints a transposing copy. An item is an element, or a pair of neighbours of a row that stay
    together."""

    def __init__(self, copy: PanelCopy) -> None:
        """Takes a copy for which `is_transposed_copy` holds."""
        self._copy, self._target, self._lanes = copy, copy.target, copy.lanes
        self._access, self._writer = copy.access, copy.access.vectors.writer
        source = self._access.storages[copy.read.buffer]
        assert isinstance(source, Storage), "it was asked before"
        self._source = source
        # A panel narrower than a vector is transposed as one group of its own width.
        self._group = min(self._target.layout.width, copy.lanes)
        """So many columns are turned at once."""
        self._rows_per_item = 1 + self._target.pairs
        self._item = "i32" if self._target.pairs else STORED[source.dtype][0]
        # Pairs are for 16-bit dot instructions; widened panels are multiplied row by row.
        assert not (self._target.pairs and copy.widens), "pairs are of halves"

    def print(self, places: IndexPlaces) -> None:
        """Prints the copy, group of columns by group; the last may be narrower."""
        column, group, writer = self._copy.column, self._group, self._writer
        column_range = self._copy.ranges[column]
        whole = writer.divide(column_range.extent, group)
        column_range.steps(
            writer,
            0,
            whole,
            group,
            lambda at: self._transpose_columns({**places, column: at}, group),
        )
        last = {**places, column: column_range.base + linear(whole) * group}
        for remainder in column_range.remainders(group):
            left = writer.remainder(column_range.extent, group)
            writer.only_when(
                writer.equal(left, remainder), partial(self._transpose_columns, last, remainder)
            )

    def _transpose_columns(self, places: IndexPlaces, columns: int) -> None:
        """Copies a group of so many columns, all rows."""
        row, writer, item_rows = self._copy.row, self._writer, self._rows_per_item
        row_range = self._copy.ranges[row]
        # A square has as many items down as a vector has lanes; pairs count as one item.
        deep = self._lanes * item_rows
        whole, items = (
            writer.divide(row_range.extent, deep),
            writer.divide(row_range.extent, item_rows),
        )
        row_range.steps(
            writer, 0, whole, deep, lambda at: self._transpose_square({**places, row: at}, columns)
        )
        if row_range.remainders(deep):
            done = writer.multiply(whole, self._lanes)
            row_range.steps(
                writer,
                done,
                items,
                item_rows,
                lambda at: self._copy_row({**places, row: at}, columns),
            )
        if row_range.remainders(item_rows):
            last = {**places, row: row_range.base + linear(items) * item_rows}
            odd = writer.below(0, writer.remainder(row_range.extent, item_rows))
            writer.only_when(odd, partial(self._copy_row, last, columns, whole=False))

    def _transpose_square(self, places: IndexPlaces, columns: int) -> None:
        """Copies as many items of each column as a vector has lanes."""
        self._access.forget()
        vectors = [self._read(places, at, self._lanes) for at in range(columns)]
        nothing = constant(0, vectors[0].scalar, self._lanes)
        # A narrow last group fills up with zeros: panels are padded so.
        vectors += [nothing] * (self._group - columns)
        for number, vector in enumerate(self._transpose(vectors)):
            # A transposed vector holds the columns of a group one row after the other, so a narrow
            # group puts several rows into it.
            rows, across = divmod(number * self._lanes, self._group)
            self._write(places, rows * self._rows_per_item, across, vector)
        self._access.forget()

    def _transpose(self, vectors: Sequence[LlvmValue]) -> list[LlvmValue]:
        """The `vectors` transposed: each round interleaves those that are half of their number
        apart."""
        transposed, half = list(vectors), len(vectors) // 2
        count = 1
        while count < len(transposed):
            pairs = zip(transposed[:half], transposed[half:], strict=True)
            transposed = [
                part for pair in pairs for part in self._access.vectors.interleaved_pair(*pair)
            ]
            count *= 2
        return transposed

    def _copy_row(self, places: IndexPlaces, columns: int, *, whole: bool = True) -> None:
        """Copies one row, or a pair of which the second may not exist."""
        self._access.forget()
        for at in range(columns):
            self._write(places, 0, at, self._read(places, at, 1, whole=whole))
        self._access.forget()

    def _read(
        self, places: IndexPlaces, column: int, lanes: int, *, whole: bool = True
    ) -> LlvmValue:
        """Items of one column."""
        index = self._copy.column
        spot = LaneAddress({**places, index: places[index] + column})
        offset = self._access.offset(self._source, self._copy.read.at, spot)
        memory = self._access.memory
        if whole:
            return self._copy.written(memory.read(self._source, offset, self._item, lanes))
        alone = memory.read(self._source, offset, STORED[self._source.dtype][0])
        return self._writer.pure(f"zext {alone} to {self._item}", self._item)

    def _write(self, places: IndexPlaces, row: int, column: int, value: LlvmValue) -> None:
        """Writes items at a row and column of the panel."""
        copy = self._copy
        spot = LaneAddress(
            {**places, copy.row: places[copy.row] + row, copy.column: places[copy.column] + column}
        )
        offset, odd = self._access.in_panels(self._target, copy.written_load, spot)
        assert odd == Linear(), "pairs of rows begin at even ones"
        self._access.memory.store(self._target.flat, offset, value, None)


class PanelPrinter:
    """Prints a `copy` into panels, transposing where that is needed."""

    def __init__(self, copy: PanelCopy) -> None:
        self._copy = copy
        self._lanes = copy.lanes
        self._access = copy.access
        self._writer = copy.access.vectors.writer
        self._target = copy.target
        self._row, self._column = copy.row, copy.column
        # Row by row, a copy of contiguous rows into columns would be a gather per vector.
        self._matrix = TransposePrinter(copy).print if is_transposed_copy(copy) else self._rows

    def print(self) -> None:
        """Prints the loops over batch indices and the copy of each matrix."""
        matrix_indices = (self._row, self._column)
        self._batch([index for index in self._copy.stage.free if index not in matrix_indices], {})

    def _batch(self, left: Sequence[LoopIndex], places: IndexPlaces) -> None:
        """Prints loops over the indices `left`, which are neither row nor column."""
        if not left:
            self._matrix(places)
            return
        outermost, *inner = left
        index_range = self._copy.ranges[outermost]
        index_range.steps(
            self._writer,
            0,
            index_range.extent,
            1,
            lambda at: self._batch(inner, {**places, outermost: at}),
        )

    def _rows(self, places: IndexPlaces) -> None:
        """Copies row by row, or pair by pair, of which the last may be a single row."""
        writer, row, step = self._writer, self._row, 1 + self._target.pairs
        row_range = self._copy.ranges[row]
        count = writer.divide(row_range.extent, step)
        row_range.steps(writer, 0, count, step, lambda at: self._columns({**places, row: at}, True))
        if row_range.remainders(step):
            last = {**places, row: row_range.base + linear(count) * step}
            odd = writer.below(0, writer.remainder(row_range.extent, step))
            writer.only_when(odd, lambda: self._columns(last, False))

    def _columns(self, places: IndexPlaces, whole: bool) -> None:
        """Copies a row, panel by panel, then vector by vector, then masked."""
        writer, column, lanes = self._writer, self._column, self._lanes
        column_range, width = self._copy.ranges[column], self._target.layout.width
        assert width % lanes == 0, "a panel is of whole vectors"

        def vectors(many: int, mask: LlvmValue | None = None) -> Callable[[Linear], None]:
            def body(at: Linear) -> None:
                for number in range(many):
                    self._vector({**places, column: at + number * lanes}, whole, mask)

            return body

        panels, count = (
            writer.divide(column_range.extent, width),
            writer.divide(column_range.extent, lanes),
        )
        column_range.steps(writer, 0, panels, width, vectors(width // lanes))
        if any(remainder >= lanes for remainder in column_range.remainders(width)):
            done = writer.multiply(panels, width // lanes)
            column_range.steps(writer, done, count, lanes, vectors(1))
        if column_range.remainders(lanes):
            last, left = (
                column_range.base + linear(count) * lanes,
                writer.remainder(column_range.extent, lanes),
            )
            writer.only_when(
                writer.below(0, left),
                lambda: vectors(1, self._access.vectors.first(left, lanes))(last),
            )

    def _vector(self, places: IndexPlaces, whole: bool, mask: LlvmValue | None = None) -> None:
        """Copies a vector of one row, or of two interleaved; missing elements are zero."""
        access, spot = self._access, LaneAddress(places, self._column, self._lanes, mask)
        access.forget()
        value = self._read(spot)
        if self._target.pairs:
            value = access.vectors.interleaved(value, self._below(spot, whole, value.scalar))
        offset, _ = access.in_panels(self._target, self._copy.written_load, spot)
        access.memory.store(self._target.flat, offset, value, None)
        access.forget()

    def _below(self, spot: LaneAddress, whole: bool, scalar: str) -> LlvmValue:
        """A vector of the next row; zeros if there is none."""
        # The row behind an odd last one is zero: it adds nothing to a dot product.
        if not whole:
            return constant(0, scalar, self._lanes)
        places = {**spot.places, self._row: spot.places[self._row] + 1}
        return self._read(replace(spot, places=places))

    def _read(self, spot: LaneAddress) -> LlvmValue:
        """A vector of the input, as it is written."""
        return self._copy.written(self._access.stored(self._copy.read, spot))
