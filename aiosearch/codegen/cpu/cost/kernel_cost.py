"""The cost model of CPU kernels: predicted seconds by a schedule, good enough to rank trials."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

from ....tensor.types import HALVES
from ...ir import (
    Apply,
    Buffer,
    BufferLoad,
    KernelStage,
    LoopIndex,
    Operation,
    ReductionKind,
    TileKernel,
    indices,
    single_index,
    walk,
)
from ...llvm.memory import bytes_of
from ...native.handler import CACHE_LINE_BYTES
from ...native.machine import CpuMachine
from ..coded_format import CODED_SIZE_RATIO
from ..index_roles import (
    IndexRoles,
    inputs_exceeding_l2,
    is_contiguous_along,
    unblocked_shape,
    work,
)
from ..packing import PackedLayout
from ..prepare.precision import is_bf16_product, widenable_tiles
from ..prepare.serial_passes import serial_passes
from ..prepare.transpose_kernels import transposing_threads
from ..register_layout import RegisterShape
from ..schedule import Schedule
from .reduction_cost import (
    CLOCK_HERTZ,
    L2_BYTES_PER_SECOND,
    ROW_JUMP_CYCLES,
    OperandPlacement,
    ReductionCost,
    ReductionWork,
)

KERNEL_START_SECONDS = 5e-6
"""Seconds until all threads have begun a kernel."""
_DRAM_BYTES_PER_SECOND_PER_THREAD = 30e9
"""Bytes a second that one thread reads of memory."""
_OVERLAP_NORM = 2
"""The slowest of arithmetic, memory and the second cache hides the others, but not all of them."""
_LAST_THREAD_BLOCK_FRACTION = 0.2
"""Of a block, how much longer the last thread takes than the others."""
_LAST_THREAD_START_SECONDS = 50e-6
"""Seconds until the last thread has begun, at most."""
_SHARED_CORE_SLOWDOWN = 0.03
"""How much longer a core takes that something else runs on as well."""
_COPY_CYCLES_PER_BYTE = 0.08
"""Cycles that a block waits for a byte that it copies: nothing is computed meanwhile."""
_LANE_REDUCTION_CYCLES = 30.0
"""Cycles until lanes that were folded are one, and added to what is there."""
_STRIDED_COPY_CYCLES_PER_BYTE = 0.35
"""The same where rows of what it copies lie apart in memory."""
_BROADCAST_WIDENING_INSTRUCTIONS = 2
"""Instructions that widen a half and spread it over all lanes, more than one that spreads it."""
_POLYNOMIAL_OPERATIONS = {
    Operation.EXP,
    Operation.LOG,
    Operation.EXPM1,
    Operation.TANH,
    Operation.ERF,
    Operation.ERFC,
    Operation.SIN,
    Operation.COS,
}
_OPERATION_CYCLES = {
    Operation.DIVIDE: 8.0,
    Operation.SQRT: 8.0,
    Operation.LOG1P: 18.0,
    Operation.POW: 40.0,
    **dict.fromkeys(_POLYNOMIAL_OPERATIONS, 10.0),
}


_PackedInputs: TypeAlias = tuple[str, ...]
"""Inputs that lie in panels; along which of their axes is the same in all schedules."""


@dataclass(frozen=True)
class _StageWork:
    """What a stage does, however indices are cut."""

    shape: RegisterShape
    total: int
    missing: tuple[LoopIndex, ...]
    """What could be cut and does not concern it: blocks along these do the same."""
    cycles: float
    """Of one vector, where it is no sum whose rows share what lanes read."""
    sum: ReductionWork | None
    """Where it is one."""
    without: ReductionWork | None
    """The same if no instruction adds up pairs."""
    lane_folded: bool
    """Whether lanes lie along what is folded."""
    apart: frozenset[str]
    """Of what its lanes share: what does not lie side by side for its rows."""
    far: frozenset[str]
    """The inputs down whose rows it goes, and that are larger than the second cache."""
    read: frozenset[str]
    moving: frozenset[str]
    """The halves that move with its lanes,"""
    shared: frozenset[str]
    """and those that its lanes share."""


@dataclass(frozen=True)
class _InputTraffic:
    """What is read of an input."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    missing: tuple[LoopIndex, ...]
    strides: bool
    """Whether the main stage goes down its columns, a row at a time."""
    columns: LoopIndex | None
    """Along its rows, where no cache holds it."""


@dataclass(frozen=True)
class _TileCounts:
    """What comes of how indices are cut, whatever else a schedule says."""

    blocks: int
    same: tuple[int, ...]
    """Of each stage, how many blocks do the same."""
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    depths: tuple[int, ...]
    """The rows, the lanes and the products of each stage's tile."""
    readers: tuple[int, ...]
    """Of each input, how many blocks read the same."""
    copying: tuple[float, ...]
    """Of each input, how many cycles blocks wait while they copy it."""
    fits: bool
    """Whether what several blocks read stays in the second cache meanwhile."""


class KernelCost:
    """Of one kernel on one machine."""

    def __init__(
        self, kernel: TileKernel, own: IndexRoles, machine: CpuMachine, threads: int
    ) -> None:
        self._kernel, self._own, self._threads = kernel, own, threads
        self._machine, self._widest, self._l2 = machine, machine.width, machine.l2
        self._works: dict[_PackedInputs, list[_StageWork]] = {}
        self._reads = [self._read(one) for one in kernel.inputs]
        self._made = _tiled_inputs(kernel)
        self._narrow = frozenset(one.name for one in widenable_tiles(kernel))
        self._written = sum(bytes_of(one.dtype, one.shape) for one in kernel.outputs)
        self._cuts, self._summed = cache(self._cutting), cache(ReductionCost(machine.l1).cycles)
        self._passes = cache(self._passing)

    def seconds(self, schedule: Schedule) -> float:
        """What counts is which of two is less."""
        laid = (*schedule.layouts, *schedule.panels)
        if laid not in self._works:
            self._works[laid] = self._working({**schedule.layouts, **schedule.panels})
        cuts, works = self._cuts(tuple(schedule.tiles.items()), laid), self._works[laid]
        if not cuts.blocks:
            return 0.0
        turns = self._passes(schedule.serial, schedule.keeps)
        cycles = sum(
            times * cuts.same[at] * self._cycles(works[at], at, schedule, cuts)
            for at, times in enumerate(turns)
            if times
        )
        copied = {*schedule.staged, *schedule.panels, *self._made}
        reads = zip(self._reads, cuts.copying, strict=True)
        cycles += sum(waits for one, waits in reads if one.name in copied)
        beside = (cycles / CLOCK_HERTZ, *self._traffic(schedule, cuts))
        block = sum(one**_OVERLAP_NORM for one in beside) ** (1 / _OVERLAP_NORM) / cuts.blocks
        return self._turning(schedule) + float(
            -(-cuts.blocks // self._threads) * block
            + min(
                _LAST_THREAD_BLOCK_FRACTION * block,
                _LAST_THREAD_START_SECONDS + _SHARED_CORE_SLOWDOWN * block,
            )
        )

    def _cutting(self, tiles: tuple[tuple[str, int], ...], laid: _PackedInputs) -> _TileCounts:
        cut, works = Schedule(dict(tiles)), self._works[laid]
        shapes = [one.shape for one in works]
        readers = tuple(_tiles(one.missing, cut) for one in self._reads)
        reads = zip(self._reads, readers, strict=True)
        fits = sum(self._slice(one, cut) for one, times in reads if times > 1) <= self._l2
        return _TileCounts(
            _tiles(self._own.blocked, cut),
            tuple(_tiles(one.missing, cut) for one in works),
            tuple(_tile(one.row, cut) for one in shapes),
            tuple(_tile(one.along, cut) for one in shapes),
            tuple(_tile(one.inner, cut) for one in shapes),
            readers,
            tuple(
                _copying(one, cut, times, 1 if fits else times)
                for one, times in zip(self._reads, readers, strict=True)
            ),
            fits,
        )

    def _turning(self, schedule: Schedule) -> float:
        """Before all blocks; that other kernels want the same is not counted."""
        found = 0.0
        for one in self._reads:
            layout = schedule.turned.get(one.name)
            if layout is not None:
                threads = transposing_threads(layout, one.shape, self._threads)
                found += (
                    KERNEL_START_SECONDS + one.bytes * _COPY_CYCLES_PER_BYTE / CLOCK_HERTZ / threads
                )
        return found

    def _working(self, layouts: Mapping[str, PackedLayout]) -> list[_StageWork]:
        """Of each stage; what is laid out decides along what its lanes lie."""
        shapes = (
            (one, unblocked_shape(self._kernel, one, self._machine, layouts))
            for one in self._kernel.stages
        )
        return [self._work(*each) for each in shapes]

    def _work(self, stage: KernelStage, shape: RegisterShape) -> _StageWork:
        used, machine = {*stage.free, *stage.folded}, self._machine
        applied = [one for one in walk(stage.value) if isinstance(one, Apply)]
        steps = sum(_OPERATION_CYCLES.get(one.operation, 0.5) for one in applied)
        shares = stage.fold is ReductionKind.SUM and shape.along not in stage.folded
        own = _reduction_work(stage, shape, machine) if shares else None
        return _StageWork(
            shape,
            work(stage),
            tuple(one for one in self._own.blocked if one not in used),
            max(len(stage.loads) / 2, steps, 1.0),
            own,
            replace(own, dots=False, slow=False) if own else None,
            shape.along in stage.folded,
            frozenset(_strided_broadcast_inputs(stage, shape)),
            inputs_exceeding_l2(stage, shape, self._kernel.inputs, machine.l2),
            frozenset(load.buffer.name for load in stage.loads),
            frozenset(_half_operands(stage, shape, moving=True)),
            frozenset(_half_operands(stage, shape, moving=False)),
        )

    def _read(self, buffer: Buffer) -> _InputTraffic:
        stages = self._kernel.stages
        loads = [one for stage in stages for one in stage.loads if one.buffer == buffer]
        used = {one for load in loads for one in _used(load)}
        mine = [load for load in self._own.stage.loads if load.buffer == buffer]
        matrix = bytes_of(buffer.dtype, buffer.shape[-2:])
        return _InputTraffic(
            buffer.name,
            buffer.shape,
            bytes_of(buffer.dtype, buffer.shape),
            tuple(one for one in self._own.blocked if one not in used),
            any(self._own.along in _used(load) for load in mine),
            single_index(loads[0].at[-1]) if loads[0].at and matrix > self._l2 else None,
        )

    def _passing(self, name: str | None, keeps: bool) -> list[int]:
        """In how many passes along the serial index each stage runs."""
        serial = next((one for one in self._kernel.indices if one.name == name), None)
        found: Counter[Buffer] = Counter()
        for one in serial_passes(self._kernel, serial, keeps=keeps):
            found.update(stage.target for stage in (*one.before, *one.along))
        return [found[stage.target] for stage in self._kernel.stages]

    def _cycles(self, one: _StageWork, at: int, schedule: Schedule, cuts: _TileCounts) -> float:
        """Of a stage."""
        wishes, lanes = schedule.wishes, schedule.lanes(self._widest)
        if one.sum is None or one.without is None:
            along = one.shape.along.size if one.shape.along is not None else 1
            joined = (
                one.total / cuts.columns[at] * _LANE_REDUCTION_CYCLES if one.lane_folded else 0.0
            )
            return one.total / min(lanes, along) * one.cycles + joined
        rows, vectors = wishes.rows or 4, wishes.vectors or 2
        wide = self._widened(schedule)
        dots = one.sum.dots and wide.isdisjoint(one.moving) and wide.isdisjoint(one.shared)
        own = one.sum if dots else one.without
        lying = self._lying(one, schedule, cuts.columns[at], vectors * lanes)
        if not dots and (one.moving or one.shared):
            widening = _widening(one.moving - wide, schedule)
            spreading = _BROADCAST_WIDENING_INSTRUCTIONS if one.shared - wide else 0
            lying = replace(lying, widening=widening, spreading=spreading)
        tile, depth = cuts.rows[at], cuts.depths[at]
        return self._summed(own, tile, depth, rows, vectors, lanes, wishes.matrix, lying)

    def _lying(
        self, one: _StageWork, schedule: Schedule, columns: int, panel: int
    ) -> OperandPlacement:
        """In a block that has so many columns."""
        read, layouts = one.read, schedule.layouts
        apart = one.far - layouts.keys() - schedule.panels.keys()
        along = one.shape.along
        whole = along is None or columns >= along.size
        return OperandPlacement(
            not (read.isdisjoint(layouts) and read.isdisjoint(schedule.panels)),
            any(layout.coded for name, layout in layouts.items() if name in read),
            bool(one.apart)
            and one.apart.isdisjoint(schedule.staged)
            and one.apart.isdisjoint(schedule.turned),
            read.isdisjoint(schedule.panels),
            columns <= panel and not read.isdisjoint(layouts),
            max(1.0, columns / panel) if apart and not whole else 0.0,
        )

    def _widened(self, schedule: Schedule) -> frozenset[str]:
        """What holds f32 in place of halves."""
        if not schedule.wide:
            return frozenset()
        return self._narrow.union(schedule.staged, schedule.turned, schedule.panels)

    def _traffic(self, schedule: Schedule, cuts: _TileCounts) -> tuple[float, float]:
        """Seconds for what comes from memory, and from the second cache where that keeps it."""
        memory, near = float(self._written), 0.0
        for one, readers in zip(self._reads, cuts.readers, strict=True):
            layout = schedule.layouts.get(one.name)
            read = one.bytes * (CODED_SIZE_RATIO if layout and layout.coded else 1)
            memory += read * (1 if cuts.fits else readers)
            near += read * (readers - 1 if cuts.fits else 0)
            if one.strides and one.name not in schedule.layouts:
                memory += one.bytes * 0.3
        return memory / _DRAM_BYTES_PER_SECOND_PER_THREAD, near / L2_BYTES_PER_SECOND

    def _slice(self, one: _InputTraffic, schedule: Schedule) -> float:
        """What a block reads of an input, in bytes."""
        own = (each for each in self._own.blocked if each not in one.missing)
        return one.bytes / max(_tiles(own, schedule), 1)


def _reduction_work(stage: KernelStage, shape: RegisterShape, machine: CpuMachine) -> ReductionWork:
    pairs = is_bf16_product(stage) and is_contiguous_along(stage, shape.inner)
    dots, matrix = machine.bf16_dot and pairs, machine.bf16_matrix and pairs
    inner = shape.inner.size if shape.inner is not None else 1
    return ReductionWork(work(stage), inner, dots, dots and machine.slow_dots, matrix)


def _half_operands(stage: KernelStage, shape: RegisterShape, *, moving: bool) -> Iterator[str]:
    for load in stage.loads:
        if load.buffer.dtype in HALVES and (shape.along in _used(load)) is moving:
            yield load.buffer.name


def _widening(names: frozenset[str], schedule: Schedule) -> int:
    """Instructions for a vector of these: of pairs, and of others."""
    if not names:
        return 0
    laid = {*schedule.layouts, *schedule.panels}
    return 2 if names.isdisjoint(laid) else 1


def _strided_broadcast_inputs(stage: KernelStage, shape: RegisterShape) -> Iterator[str]:
    for load in stage.loads:
        shared = shape.row in _used(load) and shape.along not in _used(load)
        if shared and single_index(load.at[-1]) != shape.row:
            yield load.buffer.name


def _tiled_inputs(kernel: TileKernel) -> frozenset[str]:
    """The inputs of which a block makes a tile for a sum, as if it copied them."""
    stages = (one for one in kernel.stages if not one.folded and one.target not in kernel.outputs)
    inputs = {one for one in kernel.inputs if len(one.shape) > 1}
    return frozenset(
        load.buffer.name
        for stage in stages
        for load in stage.loads
        if load.buffer in inputs and math.prod(load.buffer.shape) >= stage.work
    )


def _copying(one: _InputTraffic, cut: Schedule, readers: int, again: int) -> float:
    """Cycles for copies of all, tile by tile: each row of a tile lies somewhere else in memory.

    So many blocks copy the same, and so many of them have it from there.
    """
    waits = readers * one.bytes * _COPY_CYCLES_PER_BYTE
    if one.columns is None or cut.count(one.columns) == 1:
        return waits
    row = cut.tile(one.columns) * one.bytes // math.prod(one.shape)
    return waits + again * one.bytes * (
        _STRIDED_COPY_CYCLES_PER_BYTE + ROW_JUMP_CYCLES / max(row, CACHE_LINE_BYTES)
    )


def _used(load: BufferLoad) -> Collection[LoopIndex]:
    return {one for position in load.at for one in indices(position)}


def _tile(one: LoopIndex | None, schedule: Schedule) -> int:
    return 1 if one is None else schedule.tile(one)


def _tiles(some: Iterable[LoopIndex], schedule: Schedule) -> int:
    return math.prod(map(schedule.count, some))
