"""Prints a module of kernels as LLVM IR: one function for each, over a range of its blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...tensor.types import DType
from ..ir import Buffer, Constant, Index, Kernel, Module, Position, Stage, alone
from ..native.machine import Machine
from ..native.native import Native, Phase
from ..scalars import library
from ..scalars.catalogue import Wanted
from .arithmetic import WORKING, Arithmetic
from .blocks import StagePrinter, neutral
from .elements import Elements
from .linear import Linear, linear
from .memory import STORED, Memory, Storage
from .packed import Packed
from .panels import PanelPrinter
from .passes import Pass, passes
from .ranges import Range, known
from .schedule import Schedule, blocked
from .schedule import serial as serials
from .shape import shape
from .staging import accumulating, private, separated, staged
from .writer import Value, Whole, Writer

_LINE = 64


def native(module: Module, schedules: Mapping[str, Schedule], machine: Machine) -> Native:
    """The module for a machine, each kernel by the schedule under its name, or the plainest one."""
    module = separated(module)
    inputs = [_as_packed(one, schedules) for one in module.inputs]
    own = [one for kernel in module.kernels for one in kernel.outputs]
    inner = [one for one in dict.fromkeys(own) if one not in module.outputs]
    numbers = {one: at for at, one in enumerate([*module.inputs, *module.outputs, *inner])}
    functions, phases = [], []
    wanted: set[Wanted] = set()
    declared: set[str] = set()
    for number, kernel in enumerate(module.kernels):
        schedule = schedules.get(kernel.name, Schedule())
        printer = KernelPrinter(kernel, schedule, machine, numbers, f"{module.name}.{number}")
        functions.append(printer.text())
        phases.append(printer.phase)
        wanted |= printer.arithmetic.wanted
        declared |= printer.writer.declared
    own_functions = library(sorted(wanted), fused=machine.fma and machine.f16c)
    declared = {line for line in declared if line not in own_functions}
    text = "\n".join([own_functions, *sorted(declared), *functions])
    temporaries = tuple(max(1, math.prod(one.shape)) * STORED[one.dtype][1] for one in inner)
    return Native(module.name, text, tuple(inputs), module.outputs, tuple(phases), temporaries)


def _as_packed(buffer: Buffer, schedules: Mapping[str, Schedule]) -> Buffer:
    for schedule in schedules.values():
        layout = schedule.layouts.get(buffer.name)
        if layout is not None:
            return replace(buffer, shape=layout.shape(buffer.shape))
    return buffer


@dataclass
class KernelPrinter:
    """One kernel's function."""

    kernel: Kernel
    schedule: Schedule
    machine: Machine
    numbers: Mapping[Buffer, int]
    """Where the pointers to device memory stand."""
    name: str
    writer: Writer = field(default_factory=Writer)

    def __post_init__(self) -> None:
        serial = {one.name: one for one in serials(self.kernel)}.get(self.schedule.serial or "")
        if serial is not None and self.schedule.tile(serial) >= serial.size:
            serial = None
        self.serial: Index | None = serial
        copying, self.panels = staged(self.kernel, self.schedule)
        kernel = accumulating(copying, serial)
        self.parallel = blocked(kernel)
        self.kernel = private(kernel, self.parallel)
        self.arithmetic = Arithmetic(self.writer, self.machine)
        self.scratch_bytes = 0

    @property
    def phase(self) -> Phase:
        counts = [-(-one.size // self.schedule.tile(one)) for one in self.parallel]
        empty = all(0 in one.shape for one in self.kernel.outputs)
        return Phase(0 if empty else math.prod(counts), self.scratch_bytes)

    def text(self) -> str:
        """The function, which runs blocks `%begin` to before `%end`."""
        self.writer.loop(
            Value("%begin", "i64"), Value("%end", "i64"), 1, (), lambda block, _: self._block(block)
        )
        head = f"define void @{self.name}(ptr %buffers, ptr %scratch, i64 %begin, i64 %end) {{"
        return "\n".join([head, *self.writer.lines, "  ret void", "}"])

    def _block(self, block: Whole) -> Sequence[Value]:
        ranges, firsts = self._tiles(block)
        storages = {**self._device(), **self._scratch()}
        for one in passes(self.kernel, self.serial):
            self._pass(one, ranges, firsts, storages)
        return ()

    def _tiles(self, block: Whole) -> tuple[dict[Index, Range], dict[Index, Whole]]:
        """Where the block works, and its number along each index; the last index runs fastest."""
        ranges = {one: known(one.size) for one in self.kernel.indices}
        numbers: dict[Index, Whole] = {}
        for one in reversed(self.parallel):
            tile = self.schedule.tile(one)
            count = -(-one.size // tile)
            numbers[one] = self.writer.remainder(block, count)
            block = self.writer.divide(block, count)
            ranges[one] = self._tile(one, numbers[one])
        return ranges, numbers

    def _tile(self, index: Index, number: Whole) -> Range:
        tile, size = self.schedule.tile(index), index.size
        base = linear(number) * tile
        if size % tile == 0:
            return Range(base, tile, (tile,))
        left = self.writer.subtract(size, base.whole(self.writer))
        return Range(base, self.writer.least(tile, left), (tile, size % tile))

    def _device(self) -> dict[Buffer, Storage | Packed]:
        """The kernel's inputs and outputs."""
        found: dict[Buffer, Storage | Packed] = {}
        for buffer in dict.fromkeys((*self.kernel.inputs, *self.kernel.outputs)):
            slot = self.writer.pure(
                f"getelementptr ptr, ptr %buffers, i64 {self.numbers[buffer]}", "ptr"
            )
            pointer = self.writer.new(f"load ptr, ptr {slot.text}, align 8", "ptr")
            layout = self.schedule.layouts.get(buffer.name)
            if layout is None:
                found[buffer] = plain(pointer, buffer)
                continue
            flat = Storage(pointer, buffer.dtype, (1,), (Linear(),))
            origin = tuple(Linear() for _ in buffer.shape)
            found[buffer] = Packed(flat, layout, buffer.shape, origin)
        return found

    def _pass(
        self,
        one: Pass,
        ranges: dict[Index, Range],
        firsts: Mapping[Index, Whole],
        storages: dict[Buffer, Storage | Packed],
    ) -> None:
        for stage in one.before:
            self._stage(stage, ranges, firsts, storages, adds=False)
        if self.serial is None or not one.along:
            return
        for stage in one.sums(self.serial):
            self._begin(stage, ranges, firsts, storages)
        tile = self.schedule.tile(self.serial)

        def along(number: Whole, _: list[Value]) -> Sequence[Value]:
            assert self.serial is not None
            own = {**ranges, self.serial: self._tile(self.serial, number)}
            for stage in one.along:
                adds = self.serial in stage.folded
                self._stage(stage, own, firsts, storages, adds=adds)
            return ()

        self.writer.loop(0, -(-self.serial.size // tile), 1, (), along)

    def _begin(
        self,
        stage: Stage,
        ranges: dict[Index, Range],
        firsts: Mapping[Index, Whole],
        storages: dict[Buffer, Storage | Packed],
    ) -> None:
        """What is folded tile by tile starts with what changes nothing."""
        value = Constant(neutral(stage.fold, WORKING[stage.target.dtype]))
        self._stage(Stage(stage.target, stage.at, value), ranges, firsts, storages, adds=False)

    def _stage(
        self,
        stage: Stage,
        ranges: dict[Index, Range],
        firsts: Mapping[Index, Whole],
        storages: dict[Buffer, Storage | Packed],
        *,
        adds: bool,
    ) -> None:
        if stage.target not in self.kernel.outputs:
            storages[stage.target] = _moved(storages[stage.target], stage, ranges)

        def run(_: list[Value]) -> Sequence[Value]:
            working = _working(stage)
            lanes = self.machine.width // (8 if working == "double" else 4)
            memory = Memory(self.writer, self.machine)
            elements = Elements(self.writer, memory, self.arithmetic, storages, working)
            registers = 32 if self.machine.width == 64 or self.machine.is_arm else 16
            wishes = self.schedule.wishes
            target = storages[stage.target]
            if isinstance(target, Packed):
                PanelPrinter(stage, ranges, target, lanes, elements).print()
            else:
                own = shape(stage, ranges, storages, lanes, registers, wishes)
                dots = self.machine.bf16_dot
                StagePrinter(stage, ranges, own, lanes, elements, adds, dots).print()
            return ()

        self.writer.when(self._first(stage, firsts), (), run)

    def _first(self, stage: Stage, firsts: Mapping[Index, Whole]) -> Value | bool:
        """An output that several blocks would fill alike is filled by the first of them."""
        found: Value | bool = True
        if stage.target in self.kernel.outputs:
            for one, number in firsts.items():
                if one not in stage.free:
                    found = self.writer.both(found, self.writer.equal(number, 0))
        return found

    def _scratch(self) -> dict[Buffer, Storage | Packed]:
        """Room for tiles, in the thread's own memory."""
        found: dict[Buffer, Storage | Packed] = {}
        self.scratch_bytes = 0
        for stage in self.kernel.stages:
            if stage.target in self.kernel.outputs:
                continue
            size = STORED[stage.target.dtype][1]
            sizes = [
                self._longest(one, own)
                for one, own in zip(stage.at, stage.target.shape, strict=True)
            ]
            layout = self.panels.get(stage.target)
            strides = _strides(sizes, size)
            text = f"getelementptr i8, ptr %scratch, i64 {self.scratch_bytes}"
            length = (strides[0] * sizes[0] if sizes else 1) * size
            if layout is not None:
                length = math.prod(layout.shape(tuple(sizes))) * size
            self.scratch_bytes += -(-max(length, 1) // _LINE) * _LINE + _LINE
            pointer = self.writer.pure(text, "ptr")
            origin = tuple(Linear() for _ in sizes)
            if layout is None:
                found[stage.target] = Storage(pointer, stage.target.dtype, strides, origin)
            else:
                flat = Storage(pointer, stage.target.dtype, (1,), (Linear(),))
                found[stage.target] = Packed(flat, layout, tuple(sizes), origin)
        return found

    def _longest(self, position: Position, size: int) -> int:
        """Of a tile along an axis."""
        own = alone(position)
        if own in self.parallel or (own is not None and own is self.serial):
            return self.schedule.tile(own)
        return size


def _moved(
    storage: Storage | Packed, stage: Stage, ranges: Mapping[Index, Range]
) -> Storage | Packed:
    """Where the tile of a stage begins now."""
    own = [alone(position) for position in stage.at]
    return replace(
        storage, origin=tuple(Linear() if one is None else ranges[one].base for one in own)
    )


def _working(stage: Stage) -> str:
    """In what its floats are computed."""
    dtypes = {stage.target.dtype, *(load.buffer.dtype for load in stage.loads)}
    return "double" if DType.F64 in dtypes else "float"


def plain(pointer: Value, buffer: Buffer) -> Storage:
    strides = tuple(math.prod(buffer.shape[axis + 1 :]) for axis in range(len(buffer.shape)))
    return Storage(pointer, buffer.dtype, strides, tuple(Linear() for _ in buffer.shape))


def _strides(sizes: Sequence[int], size: int) -> tuple[int, ...]:
    """Of a tile; rows that would begin at the same places of the cache are moved apart."""
    found = [1] * len(sizes)
    for axis in range(len(sizes) - 2, -1, -1):
        found[axis] = found[axis + 1] * max(sizes[axis + 1], 1)
        if axis == len(sizes) - 2 and found[axis] * size % 1024 == 0:
            found[axis] += _LINE // size
    return tuple(found)
