"""Packed layouts: matrices cut into panels of columns, in the order in which the innermost loop
reads them.

Columns are cut into panels, and a panel holds its rows one after the other. Where instructions add
the products of neighbours, two rows are interleaved element by element. What is missing to whole
panels, and to an even number of rows, is zero.

Example: a matrix of 100 rows by 70 columns in panels of width 32 is an array of shape (3, 100, 32);
element [5, 40] is at [1, 5, 8]. A matrix of 101 by 70 with rows in pairs has shape (3, 51, 32, 2),
and element [5, 40] is at [1, 2, 8, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ...tensor.types import DType
from ..ir import Buffer
from ..llvm.builder import FunctionBuilder
from ..llvm.linear import Linear
from ..llvm.memory import Storage
from .coded_format import CodedPanelFormat


@dataclass(frozen=True)
class PackedLayout:
    """The packed layout of an input that is read at `[batch..., row, column]`, with its axes in any
    order."""

    row: int
    """The axis of the input that a product reduces."""
    column: int
    """The axis of the input that is cut into panels."""
    width: int
    """Columns of a panel."""
    pairs: bool
    """Whether rows are interleaved in pairs."""
    coded: bool = False
    """Whether panels are coded; they hold pairs then, and are full."""
    shared: bool = False
    """Whether all lanes read the same column and never neighbours, as they do of transposed
    rows."""

    def packed_input(self, buffer: Buffer) -> Buffer:
        """The `buffer` that a kernel is called with in place of the input."""
        shape = self.shape(buffer.shape)
        if not self.coded:
            return replace(buffer, shape=shape)
        return replace(buffer, shape=(self.codes(buffer.shape).bytes // 4,), dtype=DType.I32)

    def codes(self, sizes: tuple[int, ...]) -> CodedPanelFormat:
        """The coded format of an input of these sizes."""
        shape = self.shape(sizes)
        return CodedPanelFormat(math.prod(shape[:-3]), math.prod(shape[-3:]))

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the array that holds an input of these sizes: batch, panels, rows, width,
        and 2 if in pairs."""
        batch = [size for axis, size in enumerate(sizes) if axis not in (self.row, self.column)]
        panels, rows = -(-sizes[self.column] // self.width), sizes[self.row]
        if self.pairs:
            return (*batch, panels, -(-rows // 2), self.width, 2)
        return (*batch, panels, rows, self.width)


@dataclass(frozen=True)
class PackedBuffer:
    """A packed buffer in memory."""

    flat: Storage
    """The elements as one axis."""
    layout: PackedLayout
    sizes: tuple[int, ...]
    """The shape that its readers see."""
    origin: tuple[Linear, ...]
    """The position of the first element."""

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape in memory, as `PackedLayout.shape` gives it."""
        return self.layout.shape(self.sizes)

    @property
    def column(self) -> int:
        """The axis that is cut into panels."""
        return self.layout.column

    @property
    def pairs(self) -> bool:
        """Whether rows are interleaved in pairs."""
        return self.layout.pairs

    def offset(self, at: Sequence[Linear], writer: FunctionBuilder) -> tuple[Linear, Linear]:
        """The offset of the element at a position, and 0 or 1 for which row of a pair it is in."""
        panel, within, odd = self.parted(at, writer)
        # A panel's elements are contiguous, so the panel's number is multiplied by its size.
        return panel * math.prod(self.shape[-2 - self.pairs :]) + within, odd

    def parted(
        self, at: Sequence[Linear], writer: FunctionBuilder
    ) -> tuple[Linear, Linear, Linear]:
        """The panel's number, the offset within the panel, and which row of a pair.

        Rows count by twos where they are in pairs, columns by panels.
        """
        layout = self.layout
        local = [place - first for place, first in zip(at, self.origin, strict=True)]
        batch, odd = Linear(), Linear()
        # Batch axes come first, in their own order, then panels, rows and columns.
        for axis, size in enumerate(self.sizes):
            if axis not in (layout.row, layout.column):
                batch = batch * size + local[axis]
        panel, within = local[layout.column].divmod(layout.width, writer)
        row = local[layout.row]
        if layout.pairs:
            row, odd = row.divmod(2, writer)
        row_elements = 2 if layout.pairs else 1
        panels = self.shape[-3 - layout.pairs]
        return (
            batch * panels + panel,
            row * (layout.width * row_elements) + within * row_elements + odd,
            odd,
        )
