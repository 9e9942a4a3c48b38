"""Printers of a module, of each kernel as an LLVM function, and of what one block of it does.

A function `kernel(buffers, scratch, begin, end)` runs the blocks from `begin` to before `end` of
one kernel; threads call it with disjoint ranges and a scratch area of their own. A block runs the
passes of `serial_passes`, and each pass its stages.

Blocks of one kernel must not depend on each other: outputs that several blocks could compute alike
are written by the first of them only, and everything else that a block writes is its own tile or
scratch.
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
from .joining import BlockGrid, JoinedPhase, constants_first, joined_phases, print_joined
from .panels import PanelCopy, PanelPrinter
from .prefetch import NextTilePrefetch
from .stage import StagePrinter
from .storage import ScratchMemory, device_storages, tile_storage
from .tile import StageTile, neutral


@dataclass
class BlockPrinter:
    """Prints what one block does."""

    prepared: PreparedKernel
    schedule: Schedule
    machine: CpuMachine
    arithmetic: Arithmetic
    storages: dict[Buffer, Storage | PackedBuffer]
    ranges: Mapping[LoopIndex, TileRange]
    """The range of each index in this block; along the serial index, all tiles."""
    numbers: Mapping[LoopIndex, LlvmInteger]
    """The number of the block along each index that is cut."""
    unit: AmxUnit

    def print(self) -> None:
        """Prints all passes."""
        keeps = self.schedule.keeps
        for serial_pass in serial_passes(self.prepared.kernel, self.prepared.serial, keeps=keeps):
            self._pass(serial_pass)

    @property
    def _writer(self) -> FunctionBuilder:
        return self.arithmetic.vectors.writer

    def _pass(self, serial_pass: SerialPass) -> None:
        """Prints what runs before the loop of a pass, initial accumulators, and the loop."""
        self._stages(serial_pass.before, self.ranges)
        serial = self.prepared.serial
        if serial is not None and serial_pass.along:
            for stage in serial_pass.sums(serial):
                self._stage(_initial_accumulators(stage), self.ranges)
            count = self.schedule.count(serial)
            self._writer.repeat(0, count, partial(self._along, serial_pass.along, serial))

    def _along(self, stages: Sequence[KernelStage], serial: LoopIndex, number: LlvmInteger) -> None:
        """Prints the `stages` of one serial tile."""
        tile = tile_range(serial.size, self.schedule.tile(serial), number, self._writer)
        self._stages(stages, {**self.ranges, serial: tile})

    def _stages(self, stages: Sequence[KernelStage], ranges: Mapping[LoopIndex, TileRange]) -> None:
        """Prints stages in order, those fused into a reduction together with it."""
        begun = self._producers(stages, ranges)
        for stage in stages:
            if stage not in begun.values():
                self._stage(stage, ranges, begun.get(stage))

    def _producers(
        self, stages: Sequence[KernelStage], ranges: Mapping[LoopIndex, TileRange]
    ) -> dict[KernelStage, KernelStage]:
        """The elementwise stage that each reduction computes in registers, by the reduction."""
        endings = self.prepared.endings
        # A producer runs where its reduction does, so it is left out of its own place.
        producers = prologues(stages, self.prepared.kernel.outputs, endings)
        pairs = [(stage, producers[stage.target]) for stage in stages if stage.target in producers]
        return {
            reduction: first
            for reduction, first in pairs
            if self._share_lanes(reduction, first, ranges)
        }

    def _share_lanes(
        self, reduction: KernelStage, first: KernelStage, ranges: Mapping[LoopIndex, TileRange]
    ) -> bool:
        """Whether reduction and producer vectorise the same index and hold one row at a time.

        With several rows the producer would load what the lanes of a row share once per vector,
        rather than once.
        """
        lanes, request = self._lanes(reduction), self.schedule.registers
        # Packing interleaves rows, which a register of one row cannot.
        if isinstance(self.storages[first.target], PackedBuffer):
            return False
        reduction_shape, first_shape = (
            self._shape(stage, ranges, lanes, request) for stage in (reduction, first)
        )
        single = reduction_shape.row is None and reduction_shape.column is None
        return (
            single
            and reduction_shape.along in reduction.folded
            and reduction_shape.along == first_shape.along
        )

    def _stage(
        self,
        stage: KernelStage,
        ranges: Mapping[LoopIndex, TileRange],
        first: KernelStage | None = None,
    ) -> None:
        """Prints one stage over its tile, or `first` and the reduction that takes its elements."""
        for written in (stage,) if first is None else (first, stage):
            if written.target not in self.prepared.kernel.outputs:
                # Tiles that later passes read start at the block's begin and grow with the serial
                # index.
                where = self.ranges if written.target in self.prepared.lasting else ranges
                self.storages[written.target] = tile_storage(
                    self.storages[written.target], written, where
                )
        body = partial(self._compute, stage, ranges, first)
        self._writer.only_when(self._first(stage), body)

    def _lanes(self, stage: KernelStage) -> int:
        """Lanes of a vector of the `stage`'s working type."""
        return self.schedule.lanes(self.machine.width, 8 if working_type(stage) == "double" else 4)

    def _compute(
        self,
        stage: KernelStage,
        ranges: Mapping[LoopIndex, TileRange],
        first: KernelStage | None = None,
    ) -> None:
        """Prints the loops of a `stage`, or of a copy into panels."""
        scalar, lanes = working_type(stage), self._lanes(stage)
        memory = Memory(self._writer, self.machine)
        access = BufferAccess(self.storages, memory, self.arithmetic.vectors)
        if isinstance(self.storages[stage.target], PackedBuffer):
            PanelPrinter(PanelCopy(stage, ranges, lanes, access, self.arithmetic)).print()
            return
        request, dots = self.schedule.registers, self.machine.bf16_dot
        # Only elementwise code divides many elements by one value, which a reciprocal does faster
        # given fused multiply-add.
        folding, mapping = (
            ExpressionEmitter(access, self.arithmetic, scalar, self.prepared.sums, maps=maps)
            for maps in (False, self.machine.fma)
        )
        elements = mapping if stage.reduction is ReductionKind.NONE else folding
        adds = self.prepared.serial in stage.folded
        shape = self._shape(stage, ranges, lanes, request)
        ending = self.prepared.endings.get(stage.target)
        beginning = Prologue(first, mapping) if first is not None else None
        tile = StageTile(
            stage, ranges, shape, lanes, elements, adds, dots, self.unit, ending, prologue=beginning
        )
        if request.matrix:
            tile = replace(tile, product=matrix_product(tile, self.machine))
            # A remainder of the kernel, or another of its stages, that AMX cannot take gets a
            # register tile in vectors.
            if tile.product is None:
                panel = request.vectors if coded_product(tile) else 0
                usual = replace(request, rows=0, vectors=panel)
                tile = replace(tile, shape=self._shape(stage, ranges, lanes, usual))
        StagePrinter(tile, self._next_tile).print()

    @property
    def _next_tile(self) -> NextTilePrefetch | None:
        """The prefetch of the next serial tile of what the block packs; `None` where it packs
        nothing."""
        serial, panels = self.prepared.serial, self.prepared.panels
        if serial is None or not panels:
            return None
        stages = self.prepared.kernel.stages
        read = {stage.target: stage.loads[0] for stage in stages if stage.target in panels}
        return NextTilePrefetch(serial, self.schedule.tile(serial), read)

    def _shape(
        self,
        stage: KernelStage,
        ranges: Mapping[LoopIndex, TileRange],
        lanes: int,
        request: RegisterRequest,
    ) -> RegisterShape:
        """The register layout of a `stage` in this block."""
        return choose_register_shape(
            stage, ranges, self.storages, lanes, self.machine.registers, request
        )

    def _first(self, stage: KernelStage) -> LlvmValue | bool:
        """Whether this block is to compute the `stage`: of the blocks that would write an output
        alike, only the first does."""
        is_first: LlvmValue | bool = True
        if stage.target in self.prepared.kernel.outputs:
            for index, number in self.numbers.items():
                if index not in stage.free:
                    is_first = self._writer.both(is_first, self._writer.equal(number, 0))
        return is_first


def _initial_accumulators(stage: KernelStage) -> KernelStage:
    """A `stage` that fills accumulators with the neutral element of the reduction."""
    value = Constant(neutral(stage.reduction, WORKING[stage.accumulated]))
    return KernelStage(stage.target, stage.at, value)


class KernelPrinter:
    """Prints the function of one kernel."""

    def __init__(self, kernel: TileKernel, schedule: Schedule, machine: CpuMachine) -> None:
        self._kernel = kernel
        self._prepared = prepare_kernel(kernel, schedule)
        self._schedule = schedule
        self._machine = machine
        self._scratch = ScratchMemory(self._prepared, schedule)
        self.writer = FunctionBuilder()
        self.arithmetic = Arithmetic(self.writer, machine)
        self._unit = AmxUnit(self.writer)

    @property
    def phase(self) -> KernelPhase:
        """The number of blocks, and the bytes of scratch that a thread needs."""
        blocks = math.prod(map(self._schedule.count, self._prepared.parallel))
        # An output without elements has nothing to write; inputs may be empty too, and must not be
        # read.
        empty = all(0 in buffer.shape for buffer in self._prepared.kernel.outputs)
        return KernelPhase(0 if empty else blocks, self._scratch.bytes)

    @property
    def grid(self) -> BlockGrid:
        """How its blocks are numbered."""
        slowest_first = reversed(self._from_fastest())
        tiles = tuple((index, self._schedule.tile(index)) for index in slowest_first)
        # The stages as they were before: a fused epilogue reads no less for not being a stage.
        return BlockGrid(self._kernel, tiles)

    def text(self, name: str, numbers: Mapping[Buffer, int], linkage: str = "") -> str:
        """The LLVM function, which runs blocks `%begin` to before `%end`; `numbers` are the
        positions of pointers in `%buffers`."""
        begin, end = (LlvmValue(name, "i64") for name in ("%begin", "%end"))
        self.writer.repeat(begin, end, lambda block: self._print_block(block, numbers))
        # The operating system saves AMX tiles at a context switch as long as they are in use.
        self._unit.leave()
        parameters = "(ptr %buffers, ptr %scratch, i64 %begin, i64 %end)"
        head = f"define {linkage}void @{name}{parameters} {{"
        return "\n".join([head, *self.writer.text, "  ret void", "}"])

    def _print_block(self, block: LlvmInteger, numbers: Mapping[Buffer, int]) -> None:
        """Prints the `block` of this number."""
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
        """The range of each index in a `block`, and the block's number along each index that is
        cut."""
        ranges = {index: whole_axis_range(index.size) for index in self._prepared.kernel.indices}
        numbers: dict[LoopIndex, LlvmInteger] = {}
        for index in self._from_fastest():
            numbers[index] = self.writer.remainder(block, self._schedule.count(index))
            block = self.writer.divide(block, self._schedule.count(index))
            ranges[index] = tile_range(
                index.size, self._schedule.tile(index), numbers[index], self.writer
            )
        return ranges, numbers

    def _from_fastest(self) -> list[LoopIndex]:
        """The parallel indices, the one along which consecutive blocks follow each other first."""
        innermost_first = reversed(self._prepared.parallel)
        return sorted(innermost_first, key=lambda index: index.name != self._schedule.fastest)


def print_module(
    module: Module, schedules: Mapping[str, Schedule], machine: CpuMachine, *, joined: int = 0
) -> KernelProgram:
    """The `module` as LLVM IR for a machine, each kernel by the schedule of its name.

    Where `joined` is not 0, neighbours that need only each other's rows run as one phase, if these
    are cut into so many groups at least; see `emit.joining`.
    """
    module, schedules = expand_copies(module, schedules)
    if joined:
        module = replace(module, kernels=tuple(constants_first(module.kernels)))
    inner = _private_buffers(module)
    layouts = _layouts(schedules.values())
    left = [_stored_layout(buffer, layouts) for buffer in inner]
    buffers = (*module.inputs, *module.outputs, *inner)
    numbers = {buffer: at for at, buffer in enumerate(buffers)}
    printers = [KernelPrinter(kernel, schedules[kernel.name], machine) for kernel in module.kernels]
    grids = [printer.grid for printer in printers]
    phases = (
        joined_phases(grids, joined, layouts)
        if joined
        else [JoinedPhase(number, ()) for number in range(len(printers))]
    )
    functions: list[str] = []
    for number, phase in enumerate(phases):
        name = f"{module.name}.{number}"
        if not phase.rows:
            functions.append(printers[phase.first].text(name, numbers))
            continue
        parts = [f"{name}.{part}" for part in range(len(phase.rows))]
        for kernel, part in zip(phase.kernels, parts, strict=True):
            functions.append(printers[kernel].text(part, numbers, "internal "))
        functions.append(print_joined(name, phase, grids, parts))
    return KernelProgram(
        module.name,
        _text(functions, printers, machine),
        tuple(_stored_layout(buffer, layouts) for buffer in module.inputs),
        module.outputs,
        tuple(_whole_phase(phase, printers) for phase in phases),
        tuple(max(1, bytes_of(buffer.dtype, buffer.shape)) for buffer in left),
    )


def _whole_phase(phase: JoinedPhase, printers: Sequence[KernelPrinter]) -> KernelPhase:
    """The blocks of a phase, which are groups of rows where kernels are joined, and its scratch."""
    parts = [printers[number].phase for number in phase.kernels]
    if not phase.rows:
        return parts[0]
    return KernelPhase(phase.groups, max(part.scratch_bytes for part in parts))


def expand_copies(
    module: Module, schedules: Mapping[str, Schedule]
) -> tuple[Module, Mapping[str, Schedule]]:
    """The `module` with kernels for copied outputs and transposed inputs, and a schedule for each
    kernel."""
    return with_transposes(with_separate_outputs(module), schedules)


def _private_buffers(module: Module) -> list[Buffer]:
    """Buffers that one kernel writes for others and that are no outputs of the `module`."""
    outputs = [buffer for kernel in module.kernels for buffer in kernel.outputs]
    return [buffer for buffer in dict.fromkeys(outputs) if buffer not in module.outputs]


def _text(functions: Sequence[str], printers: Sequence[KernelPrinter], machine: CpuMachine) -> str:
    """The `functions`, preceded by the definitions of all scalar functions that they call and
    declarations of the others."""
    requests = {request for printer in printers for request in printer.arithmetic.requests}
    declared = {line for printer in printers for line in printer.writer.declared}
    fused = machine.fma and machine.f16c
    called = library(sorted(requests), fused=fused, scaling=machine.scaling)
    undefined = sorted(line for line in declared if line not in called)
    return "\n".join([called, *undefined, *functions])


def _layouts(schedules: Iterable[Schedule]) -> dict[str, PackedLayout]:
    """The packed layout of each buffer that has one, by name."""
    return {name: layout for schedule in schedules for name, layout in schedule.layouts.items()}


def _stored_layout(buffer: Buffer, layouts: Mapping[str, PackedLayout]) -> Buffer:
    """The `buffer` as it is in memory."""
    return layouts[buffer.name].packed_input(buffer) if buffer.name in layouts else buffer
