"""Printers of a module, of each kernel as an LLVM function, and of what one block of it does.

Prints a kernel as a function of LLVM IR over a range of its blocks.

Prints a module of kernels as LLVM IR: one function for each, over a range of its blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...ir import Buffer, Constant, KernelStage, LoopIndex, Module, ReductionKind, TileKernel
from ...llvm.arithmetic import WORKING, Arithmetic, working_type
from ...llvm.builder import FunctionBuilder, LlvmInteger, LlvmValue
from ...llvm.memory import Memory, Storage, bytes_of
from ...llvm.scalars import library
from ...native.kernel_program import KernelPhase, KernelProgram
from ...native.machine import CpuMachine
from ..packing import PackedBuffer, PackedLayout
from ..prepare.preparation import PreparedKernel, prepare_kernel, with_separate_outputs
from ..prepare.serial_passes import SerialPass, serial_passes
from ..prepare.transpose_kernels import with_transposes
from ..reduce.amx import matrix_product
from ..reduce.amx_unit import AmxUnit
from ..reduce.coded import coded_product
from ..reduce.prologue import Prologue, prologues
from ..register_layout import RegisterRequest, RegisterShape, choose_register_shape
from ..schedule import Schedule
from .access import BufferAccess
from .addressing import TileRange, tile_range, whole_axis_range
from .expression import ExpressionEmitter
from .panels import PanelCopy, PanelPrinter
from .prefetch import NextTilePrefetch
from .stage import StagePrinter
from .storage import ScratchMemory, device_storages, tile_storage
from .tile import StageTile, neutral


@dataclass
class BlockPrinter:
    """One block, wherever it is."""

    prepared: PreparedKernel
    schedule: Schedule
    machine: CpuMachine
    arithmetic: Arithmetic
    storages: dict[Buffer, Storage | PackedBuffer]
    ranges: Mapping[LoopIndex, TileRange]
    """Of the block; along the serial index, of all its tiles."""
    numbers: Mapping[LoopIndex, LlvmInteger]
    """Which block it is along each index that is cut."""
    unit: AmxUnit

    def print(self) -> None:
        keeps = self.schedule.keeps
        for one in serial_passes(self.prepared.kernel, self.prepared.serial, keeps=keeps):
            self._pass(one)

    @property
    def _writer(self) -> FunctionBuilder:
        return self.arithmetic.vectors.writer

    def _pass(self, one: SerialPass) -> None:
        self._stages(one.before, self.ranges)
        serial = self.prepared.serial
        if serial is not None and one.along:
            for stage in one.sums(serial):
                self._stage(_initial_accumulators(stage), self.ranges)
            count = self.schedule.count(serial)
            self._writer.repeat(0, count, partial(self._along, one.along, serial))

    def _along(self, stages: Sequence[KernelStage], serial: LoopIndex, number: LlvmInteger) -> None:
        """One tile of the serial index."""
        own = tile_range(serial.size, self.schedule.tile(serial), number, self._writer)
        self._stages(stages, {**self.ranges, serial: own})

    def _stages(self, stages: Sequence[KernelStage], ranges: Mapping[LoopIndex, TileRange]) -> None:
        """One after the other, but for those that a fold begins with."""
        begun = self._beginnings(stages, ranges)
        for stage in stages:
            if stage not in begun.values():
                self._stage(stage, ranges, begun.get(stage))

    def _beginnings(
        self, stages: Sequence[KernelStage], ranges: Mapping[LoopIndex, TileRange]
    ) -> dict[KernelStage, KernelStage]:
        """What folds begin with, by the fold."""
        endings = self.prepared.endings
        found = prologues(stages, self.prepared.kernel.outputs, endings)
        pairs = [(stage, found[stage.target]) for stage in stages if stage.target in found]
        return {fold: first for fold, first in pairs if self._alike(fold, first, ranges)}

    def _alike(
        self, fold: KernelStage, first: KernelStage, ranges: Mapping[LoopIndex, TileRange]
    ) -> bool:
        """Whether they lay the same elements into the same lanes, of one row at once.

        What the lanes of a row share is read once; of several, it would be read with each vector.
        """
        lanes, wishes = self._lanes(fold), self.schedule.wishes
        if isinstance(self.storages[first.target], PackedBuffer):
            return False
        own, other = (self._shape(one, ranges, lanes, wishes) for one in (fold, first))
        single = own.row is None and own.column is None
        return single and own.along in fold.folded and own.along == other.along

    def _stage(
        self,
        stage: KernelStage,
        ranges: Mapping[LoopIndex, TileRange],
        first: KernelStage | None = None,
    ) -> None:
        """Over its tile, to which it adds what it folds along the serial index."""
        for one in (stage,) if first is None else (first, stage):
            if one.target not in self.prepared.kernel.outputs:
                where = self.ranges if one.target in self.prepared.lasting else ranges
                self.storages[one.target] = tile_storage(self.storages[one.target], one, where)
        body = partial(self._filled, stage, ranges, first)
        self._writer.only_when(self._first(stage), body)

    def _lanes(self, stage: KernelStage) -> int:
        return self.schedule.lanes(self.machine.width, 8 if working_type(stage) == "double" else 4)

    def _filled(
        self,
        stage: KernelStage,
        ranges: Mapping[LoopIndex, TileRange],
        first: KernelStage | None = None,
    ) -> None:
        scalar, lanes = working_type(stage), self._lanes(stage)
        memory = Memory(self._writer, self.machine)
        access = BufferAccess(self.storages, memory, self.arithmetic.vectors)
        if isinstance(self.storages[stage.target], PackedBuffer):
            PanelPrinter(PanelCopy(stage, ranges, lanes, access, self.arithmetic)).print()
            return
        wishes, dots = self.schedule.wishes, self.machine.bf16_dot
        folding, mapping = (
            ExpressionEmitter(access, self.arithmetic, scalar, self.prepared.sums, maps=maps)
            for maps in (False, self.machine.fma)
        )
        elements = mapping if stage.fold is ReductionKind.NONE else folding
        adds = self.prepared.serial in stage.folded
        own = self._shape(stage, ranges, lanes, wishes)
        ending = self.prepared.endings.get(stage.target)
        beginning = Prologue(first, mapping) if first is not None else None
        tile = StageTile(
            stage, ranges, own, lanes, elements, adds, dots, self.unit, ending, beginning=beginning
        )
        if wishes.matrix:
            tile = replace(tile, product=matrix_product(tile, self.machine))
            if tile.product is None:
                panel = wishes.vectors if coded_product(tile) else 0
                usual = replace(wishes, rows=0, vectors=panel)
                tile = replace(tile, shape=self._shape(stage, ranges, lanes, usual))
        StagePrinter(tile, self._coming).print()

    @property
    def _coming(self) -> NextTilePrefetch | None:
        """Of tiles that are laid out."""
        serial, panels = self.prepared.serial, self.prepared.panels
        if serial is None or not panels:
            return None
        stages = self.prepared.kernel.stages
        read = {one.target: one.loads[0] for one in stages if one.target in panels}
        return NextTilePrefetch(serial, self.schedule.tile(serial), read)

    def _shape(
        self,
        stage: KernelStage,
        ranges: Mapping[LoopIndex, TileRange],
        lanes: int,
        wishes: RegisterRequest,
    ) -> RegisterShape:
        return choose_register_shape(
            stage, ranges, self.storages, lanes, self.machine.registers, wishes
        )

    def _first(self, stage: KernelStage) -> LlvmValue | bool:
        """An output that several blocks would fill alike is filled by the first of them."""
        found: LlvmValue | bool = True
        if stage.target in self.prepared.kernel.outputs:
            for one, number in self.numbers.items():
                if one not in stage.free:
                    found = self._writer.both(found, self._writer.equal(number, 0))
        return found


def _initial_accumulators(stage: KernelStage) -> KernelStage:
    """What is folded tile by tile starts with what changes nothing."""
    value = Constant(neutral(stage.fold, WORKING[stage.accumulated]))
    return KernelStage(stage.target, stage.at, value)


pass


class KernelPrinter:
    """One kernel's function."""

    def __init__(self, kernel: TileKernel, schedule: Schedule, machine: CpuMachine) -> None:
        self._prepared = prepare_kernel(kernel, schedule)
        self._schedule = schedule
        self._machine = machine
        self._scratch = ScratchMemory(self._prepared, schedule)
        self.writer = FunctionBuilder()
        self.arithmetic = Arithmetic(self.writer, machine)
        self._unit = AmxUnit(self.writer)

    @property
    def phase(self) -> KernelPhase:
        """How many blocks there are, and what memory a thread needs for one."""
        blocks = math.prod(map(self._schedule.count, self._prepared.parallel))
        empty = all(0 in one.shape for one in self._prepared.kernel.outputs)
        return KernelPhase(0 if empty else blocks, self._scratch.bytes)

    def text(self, name: str, numbers: Mapping[Buffer, int]) -> str:
        """The function, which runs blocks `%begin` to before `%end`.

        The numbers say where the pointers to device memory stand.
        """
        begin, end = (LlvmValue(one, "i64") for one in ("%begin", "%end"))
        self.writer.repeat(begin, end, lambda block: self._block(block, numbers))
        self._unit.leave()
        head = f"define void @{name}(ptr %buffers, ptr %scratch, i64 %begin, i64 %end) {{"
        return "\n".join([head, *self.writer.text, "  ret void", "}"])

    def _block(self, block: LlvmInteger, numbers: Mapping[Buffer, int]) -> None:
        ranges, places = self._tiles(block)
        storages = device_storages(
            self._prepared.kernel, self._schedule.layouts, numbers, self.writer
        )
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

    def _tiles(
        self, block: LlvmInteger
    ) -> tuple[dict[LoopIndex, TileRange], dict[LoopIndex, LlvmInteger]]:
        """Where the block works, and its number along each index."""
        ranges = {one: whole_axis_range(one.size) for one in self._prepared.kernel.indices}
        numbers: dict[LoopIndex, LlvmInteger] = {}
        for one in self._from_fastest():
            numbers[one] = self.writer.remainder(block, self._schedule.count(one))
            block = self.writer.divide(block, self._schedule.count(one))
            ranges[one] = tile_range(one.size, self._schedule.tile(one), numbers[one], self.writer)
        return ranges, numbers

    def _from_fastest(self) -> list[LoopIndex]:
        """The indices that are cut; where the schedule says nothing, the last runs fastest."""
        found = reversed(self._prepared.parallel)
        return sorted(found, key=lambda one: one.name != self._schedule.fastest)


pass


def print_module(
    module: Module, schedules: Mapping[str, Schedule], machine: CpuMachine
) -> KernelProgram:
    """The module for a machine, each kernel by the schedule under its name, or the plainest one."""
    module, schedules = expand_copies(module, schedules)
    inner = _private_buffers(module)
    layouts = _layouts(schedules.values())
    left = [_stored_layout(one, layouts) for one in inner]
    buffers = (*module.inputs, *module.outputs, *inner)
    numbers = {one: at for at, one in enumerate(buffers)}
    printers = [KernelPrinter(kernel, schedules[kernel.name], machine) for kernel in module.kernels]
    functions = [
        printer.text(f"{module.name}.{number}", numbers) for number, printer in enumerate(printers)
    ]
    return KernelProgram(
        module.name,
        _text(functions, printers, machine),
        tuple(_stored_layout(one, layouts) for one in module.inputs),
        module.outputs,
        tuple(printer.phase for printer in printers),
        tuple(max(1, bytes_of(one.dtype, one.shape)) for one in left),
    )


def expand_copies(
    module: Module, schedules: Mapping[str, Schedule]
) -> tuple[Module, Mapping[str, Schedule]]:
    """With kernels for all that is copied, and a schedule for each kernel."""
    return with_transposes(with_separate_outputs(module), schedules)


def _private_buffers(module: Module) -> list[Buffer]:
    """What one kernel leaves for others, and nobody else sees."""
    own = [one for kernel in module.kernels for one in kernel.outputs]
    return [one for one in dict.fromkeys(own) if one not in module.outputs]


def _text(functions: Sequence[str], printers: Sequence[KernelPrinter], machine: CpuMachine) -> str:
    """The functions, with all that they call."""
    wanted = {one for printer in printers for one in printer.arithmetic.wanted}
    declared = {line for printer in printers for line in printer.writer.declared}
    fused = machine.fma and machine.f16c
    called = library(sorted(wanted), fused=fused, scaling=machine.scaling)
    others = sorted(line for line in declared if line not in called)
    return "\n".join([called, *others, *functions])


def _layouts(schedules: Iterable[Schedule]) -> dict[str, PackedLayout]:
    """Of all buffers that lie otherwise, by name."""
    return {name: one for schedule in schedules for name, one in schedule.layouts.items()}


def _stored_layout(buffer: Buffer, layouts: Mapping[str, PackedLayout]) -> Buffer:
    """As it is in memory."""
    return layouts[buffer.name].given(buffer) if buffer.name in layouts else buffer
