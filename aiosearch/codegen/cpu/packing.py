"""Packed layouts: matrices cut into panels of columns, as the innermost loop reads them.

Columns are cut into panels; a panel holds its rows one after the other. Where instructions add up
products of neighbours, two rows at a time lie interleaved. What is missing to whole panels, and to
an even number of rows, is zero.
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
    """How the elements of an input lie that are read at `[batch..., row, column]` in some order."""

    row: int
    """Which axis of the input runs along a product."""
    column: int
    width: int
    """Of a panel."""
    pairs: bool
    coded: bool = False
    """Whether panels, which are of pairs and fill up, are coded."""
    shared: bool = False
    """Whether all lanes read the same column, and never neighbours."""

    def given(self, buffer: Buffer) -> Buffer:
        """The input as a kernel is given it."""
        shape = self.shape(buffer.shape)
        if not self.coded:
            return replace(buffer, shape=shape)
        return replace(buffer, shape=(self.codes(buffer.shape).bytes // 4,), dtype=DType.I32)

    def codes(self, sizes: tuple[int, ...]) -> CodedPanelFormat:
        """Of an input of these sizes."""
        shape = self.shape(sizes)
        return CodedPanelFormat(math.prod(shape[:-3]), math.prod(shape[-3:]))

    def shape(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Of the array that holds an input of these sizes: batch, panels, rows, width[, 2]."""
        batch = [size for axis, size in enumerate(sizes) if axis not in (self.row, self.column)]
        panels, rows = -(-sizes[self.column] // self.width), sizes[self.row]
        if self.pairs:
            return (*batch, panels, -(-rows // 2), self.width, 2)
        return (*batch, panels, rows, self.width)


@dataclass(frozen=True)
class PackedBuffer:
    """A packed buffer in memory."""

    flat: Storage
    """All elements in a row."""
    layout: PackedLayout
    sizes: tuple[int, ...]
    """As its readers see it."""
    origin: tuple[Linear, ...]
    """The place of the first element."""

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """As it lies."""
        return self.layout.shape(self.sizes)

    @property
    def column(self) -> int:
        return self.layout.column

    @property
    def pairs(self) -> bool:
        return self.layout.pairs

    def offset(self, at: Sequence[Linear], writer: FunctionBuilder) -> tuple[Linear, Linear]:
        """How far in the element at a place is, and which one of a pair."""
        panel, within, odd = self.parted(at, writer)
        return panel * math.prod(self.shape[-2 - self.pairs :]) + within, odd

    def parted(
        self, at: Sequence[Linear], writer: FunctionBuilder
    ) -> tuple[Linear, Linear, Linear]:
        """The number of the panel, how far in that it is, and which one of a pair.

        Rows are counted by twos where they are paired, columns by panels.
        """
        layout = self.layout
        local = [place - first for place, first in zip(at, self.origin, strict=True)]
        found, odd = Linear(), Linear()
        for axis, size in enumerate(self.sizes):
            if axis not in (layout.row, layout.column):
                found = found * size + local[axis]
        panel, within = local[layout.column].over(layout.width, writer)
        row = local[layout.row]
        if layout.pairs:
            row, odd = row.over(2, writer)
        each = 2 if layout.pairs else 1
        panels = self.shape[-3 - layout.pairs]
        return found * panels + panel, row * (layout.width * each) + within * each + odd, odd
