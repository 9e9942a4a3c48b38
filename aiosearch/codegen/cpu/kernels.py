"""Prints a kernel as a function of LLVM IR over a range of its blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ..ir import Buffer, Index, Kernel
from ..native.machine import Machine
from ..native.native import Phase
from .arithmetic import Arithmetic
from .blocks import BlockPrinter
from .matrixunit import MatrixUnit
from .preparing import prepared
from .ranges import Range, cut, known
from .schedule import Schedule
from .storages import Scratch, device
from .values import Value, Whole
from .writer import Writer


class KernelPrinter:
    """One kernel's function."""

    def __init__(self, kernel: Kernel, schedule: Schedule, machine: Machine) -> None:
        self._prepared = prepared(kernel, schedule)
        self._schedule = schedule
        self._machine = machine
        self._scratch = Scratch(self._prepared, schedule)
        self.writer = Writer()
        self.arithmetic = Arithmetic(self.writer, machine)
        self._unit = MatrixUnit(self.writer)

    @property
    def phase(self) -> Phase:
        """How many blocks there are, and what memory a thread needs for one."""
        blocks = math.prod(map(self._schedule.count, self._prepared.parallel))
        empty = all(0 in one.shape for one in self._prepared.kernel.outputs)
        return Phase(0 if empty else blocks, self._scratch.bytes)

    def text(self, name: str, numbers: Mapping[Buffer, int]) -> str:
        """The function, which runs blocks `%begin` to before `%end`.

        The numbers say where the pointers to device memory stand.
        """
        begin, end = (Value(one, "i64") for one in ("%begin", "%end"))
        self.writer.repeat(begin, end, lambda block: self._block(block, numbers))
        self._unit.leave()
        head = f"define void @{name}(ptr %buffers, ptr %scratch, i64 %begin, i64 %end) {{"
        return "\n".join([head, *self.writer.text, "  ret void", "}"])

    def _block(self, block: Whole, numbers: Mapping[Buffer, int]) -> None:
        ranges, places = self._tiles(block)
        storages = device(self._prepared.kernel, self._schedule.layouts, numbers, self.writer)
        storages |= self._scratch.storages(self.writer)
        BlockPrinter(
            self._prepared,
            self._schedule,
            self._machine,
            self.arithmetic,
            storages,
            ranges,
            places,
            self._unit,
        ).print()

    def _tiles(self, block: Whole) -> tuple[dict[Index, Range], dict[Index, Whole]]:
        """Where the block works, and its number along each index."""
        ranges = {one: known(one.size) for one in self._prepared.kernel.indices}
        numbers: dict[Index, Whole] = {}
        for one in self._from_fastest():
            numbers[one] = self.writer.remainder(block, self._schedule.count(one))
            block = self.writer.divide(block, self._schedule.count(one))
            ranges[one] = cut(one.size, self._schedule.tile(one), numbers[one], self.writer)
        return ranges, numbers

    def _from_fastest(self) -> list[Index]:
        """The indices that are cut; where the schedule says nothing, the last runs fastest."""
        found = reversed(self._prepared.parallel)
        return sorted(found, key=lambda one: one.name != self._schedule.fastest)
