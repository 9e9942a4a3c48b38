"""Initial values of accumulators, kept in a thread's stack memory while they are added up.

Exceptions of a coded panel arrive in any order and at any column, where a vector register cannot be
indexed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue, i64

_FLOAT_BYTES = 4
"""Bytes of an f32."""


@dataclass(frozen=True)
class AccumulatorInit:
    """Initial sums of a register tile of `rows` rows by `width` columns, row-major."""

    writer: FunctionBuilder
    rows: int
    width: int
    lanes: int

    @property
    def stride(self) -> int:
        """Bytes from one row to the next."""
        return self.width * _FLOAT_BYTES

    def clear(self) -> None:
        """Prints zeros into all sums."""
        for row, column in self._vectors:
            pointer = self.at(row, column)
            self.writer.emit(f"store <{self.lanes} x float> zeroinitializer, ptr {pointer.text}")

    def add(self, row: int, column: LlvmInteger, factors: Sequence[LlvmValue]) -> None:
        """Adds a product to one sum."""
        pointer = self.at(row, column)
        old = self.writer.new(f"load float, ptr {pointer.text}, align {_FLOAT_BYTES}", "float")
        values = [str(operand) for operand in (*factors, old)]
        # Rounded once, like the products of the loop that continues this sum.
        new = self.writer.call("llvm.fma.f32", "float", 1, values)
        self.writer.emit(f"store {new}, ptr {pointer.text}, align {_FLOAT_BYTES}")

    @property
    def values(self) -> list[LlvmValue]:
        """The sums as vectors, one per register."""
        # Rows are whole vectors, and the area is aligned to a cache line.
        loads = [
            f"load <{self.lanes} x float>, ptr {self.at(*corner).text}, align 64"
            for corner in self._vectors
        ]
        return [self.writer.new(load, "float", self.lanes) for load in loads]

    def at(self, row: int, column: LlvmInteger) -> LlvmValue:
        """The address of a sum."""
        room = self.writer.stack_memory("starts", self.rows * self.stride)
        place = self.writer.add(self.writer.multiply(column, _FLOAT_BYTES), row * self.stride)
        return self.writer.pure(f"getelementptr i8, {room}, {i64(place)}", "ptr")

    @property
    def _vectors(self) -> list[tuple[int, int]]:
        """Row and column of the first lane of each register."""
        return [(row, at) for row in range(self.rows) for at in range(0, self.width, self.lanes)]
