"""Initial values of accumulators, kept in a thread's scratch memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue, i64

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class AccumulatorInit:
    """Row by row, as wide as a block of registers."""

    writer: FunctionBuilder
    rows: int
    width: int
    lanes: int

    @property
    def stride(self) -> int:
        """Bytes from one row to the next."""
        return self.width * _FLOAT_BYTES

    def clear(self) -> None:
        for row, column in self._vectors:
            pointer = self.at(row, column)
            self.writer.say(f"store <{self.lanes} x float> zeroinitializer, ptr {pointer.text}")

    def add(self, row: int, column: LlvmInteger, factors: Sequence[LlvmValue]) -> None:
        """To one element, a product."""
        pointer = self.at(row, column)
        old = self.writer.new(f"load float, ptr {pointer.text}, align {_FLOAT_BYTES}", "float")
        values = [str(one) for one in (*factors, old)]
        new = self.writer.call("llvm.fma.f32", "float", 1, values)
        self.writer.say(f"store {new}, ptr {pointer.text}, align {_FLOAT_BYTES}")

    @property
    def values(self) -> list[LlvmValue]:
        """One for each register."""
        loads = [
            f"load <{self.lanes} x float>, ptr {self.at(*one).text}, align 64"
            for one in self._vectors
        ]
        return [self.writer.new(one, "float", self.lanes) for one in loads]

    def at(self, row: int, column: LlvmInteger) -> LlvmValue:
        room = self.writer.room("starts", self.rows * self.stride)
        place = self.writer.add(self.writer.multiply(column, _FLOAT_BYTES), row * self.stride)
        return self.writer.pure(f"getelementptr i8, {room}, {i64(place)}", "ptr")

    @property
    def _vectors(self) -> list[tuple[int, int]]:
        return [(row, at) for row in range(self.rows) for at in range(0, self.width, self.lanes)]
