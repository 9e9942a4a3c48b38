"""The cost model of CPU kernels: predicted seconds of a kernel under a schedule, good enough to
rank schedules.

The problem: a space has thousands of schedules and a trial takes a good part of a second, so a
formula has to find the few that are worth timing. Only the order of two predictions counts, not
their value; what costs every schedule the same may be wrong.

The model. Work is counted stage by stage, in cycles: `ReductionCost` for sums with a register tile,
and vectors times cycles per vector for all other stages, times the number of blocks that repeat the
same work. Traffic is counted input by input, in bytes from DRAM and from L2. Arithmetic, DRAM and
L2 overlap, but not fully, so a block takes the Euclidean norm of the three. Blocks are dealt to
threads; copies of tiles and transposing kernels are added, as nothing overlaps them.

Example: f32 `X[8, 4096] @ W[4096, 4096]`, W packed in panels of 32 columns, 2 threads, tiles of 8
rows by 32 columns, 512 products at a time. `ReductionCost.cycles` gives 4.24 million cycles, 1.06
ms at 4 GHz. W, X and the output are 67.4 MB, 2.25 ms at 30 GB/s, and X is read again from L2 by all
128 blocks but one, 0.17 ms. The norm is 2.49 ms for 128 blocks, 64 of which run on each thread:
1.25 ms. Compute hides almost entirely behind memory, so schedules that read W once are close to
each other, and others are not.

Invariants: a prediction depends on the schedule alone and never on a clock; work that depends on
the kernel, or on packing and tile sizes only, is cached, so a prediction takes some ten
microseconds.

The constants describe no processor exactly. They were fitted to `benchmarks/kernels.py` and
`benchmarks/hand.py` on Zen 4, Sapphire Rapids and Emerald Rapids (`docs/all-figures.md`), so that
the fastest schedule is among the first that are timed. `docs/why/kernels.md` describes what they
stand for.
"""

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
"""DRAM bandwidth of one thread. The triad of `measure.ceilings` measures that of all;
predictions need the ratio to `CLOCK_HERTZ` only."""
_OVERLAP_NORM = 2
"""Exponent of the norm that combines cycles, DRAM and L2 time: 1 would add them (no overlap),
infinity would take the slowest (full overlap)."""
_LAST_THREAD_BLOCK_FRACTION = 0.2
"""Fraction of a block by which the last thread ends after the others, for short blocks. With the
two constants below it was fitted to `benchmarks/kernels.py`: a few long blocks are as good as many
short ones.
"""
_LAST_THREAD_START_SECONDS = 50e-6
"""Seconds by which the last thread begins after the first, at most."""
_SHARED_CORE_SLOWDOWN = 0.03
"""Fraction by which a block takes longer on a core that something else runs on as well."""
_COPY_CYCLES_PER_BYTE = 0.08
"""Cycles per byte that a block copies into packed tiles; it computes nothing meanwhile. Fitted to
f32 attention of 256 rows (`benchmarks/kernels.py --only softmax_attention`), of which these copies
took 12 %.
"""
_LANE_REDUCTION_CYCLES = 30.0
"""Cycles to reduce the lanes of an accumulator to one number and add it to what is stored. It makes
fewer, longer serial tiles cheaper where a reduction is vectorised over the reduced index."""
_STRIDED_COPY_CYCLES_PER_BYTE = 0.35
"""Cycles per byte copied from a matrix larger than L2, tile by tile, beside `ROW_JUMP_CYCLES` for
each row of a tile. Fitted to `benchmarks/hand.py --lying`."""
_BROADCAST_WIDENING_INSTRUCTIONS = 2
"""Instructions that widen a 16-bit float and broadcast it, beyond the broadcast alone."""
_STRIDED_REREAD_FRACTION = 0.3
"""Fraction of an unpacked operand's bytes that counts as read twice: lines that a block does not
use up before they are evicted."""
_SIMPLE_OPERATION_CYCLES = 0.5
"""Cycles per vector of an addition, multiplication, comparison or selection: two are executed per
cycle."""
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
"""Operations that `codegen.llvm.scalars` computes by a polynomial."""
_OPERATION_CYCLES = {
    Operation.DIVIDE: 8.0,
    Operation.SQRT: 8.0,
    Operation.LOG1P: 18.0,
    Operation.POW: 40.0,
    Operation.LGAMMA: 50.0,
    Operation.DIGAMMA: 50.0,
    Operation.REM: 30.0,
    **dict.fromkeys(_POLYNOMIAL_OPERATIONS, 10.0),
}
"""Cycles per vector of operations that are no single cheap instruction; `benchmarks/scalars.py`
times the functions."""


_PackedInputs: TypeAlias = tuple[str, ...]
"""Names of packed inputs; the axis of their panels is the same in all schedules, so the names say
which index each stage is vectorised over."""


@dataclass(frozen=True)
class _StageWork:
    """The work of a stage, independent of tile sizes."""

    shape: RegisterShape
    """How the stage would be laid into registers if no index were tiled."""
    total: int
    """Elements or products that the stage goes through."""
    missing: tuple[LoopIndex, ...]
    """Parallel indices that the stage does not depend on: blocks along these repeat its work."""
    cycles: float
    """Cycles per vector, for a stage that is no sum with a register tile."""
    sum: ReductionWork | None
    """The stage as a sum with a register tile; `None` for any other stage."""
    widened_sum: ReductionWork | None
    """The same sum without the dot instruction, for operands widened to f32."""
    lane_reduction: bool
    """Whether the stage is vectorised over an index that it reduces."""
    strided_broadcast: frozenset[str]
    """Broadcast operands whose row axis is strided: one cache line per row and step."""
    exceeding_l2: frozenset[str]
    """Unpacked inputs that the stage reads row by row and that are larger than L2."""
    read: frozenset[str]
    """Names of all buffers that the stage reads."""
    lane_halves: frozenset[str]
    """16-bit operands that vary along the lanes."""
    broadcast_halves: frozenset[str]
    """16-bit operands that are broadcast to all lanes."""


@dataclass(frozen=True)
class _InputTraffic:
    """What blocks read of one input."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    missing: tuple[LoopIndex, ...]
    """Parallel indices that the input does not depend on: blocks along these read the same
    bytes."""
    strides: bool
    """Whether the main stage is vectorised over one of its axes and reads it row by row."""
    columns: LoopIndex | None
    """The index along its rows, for a matrix larger than L2; else `None`."""


@dataclass(frozen=True)
class _TileCounts:
    """Counts that follow from tile sizes and packing alone."""

    blocks: int
    same: tuple[int, ...]
    """For each stage, how many blocks repeat the same work."""
    rows: tuple[int, ...]
    """Rows of each stage's tile."""
    columns: tuple[int, ...]
    """Columns of each stage's tile, along the vectorised index."""
    depths: tuple[int, ...]
    """Products that each stage adds within a serial tile."""
    readers: tuple[int, ...]
    """For each input, how many blocks read the same bytes."""
    copy_cycles: tuple[float, ...]
    """For each input, cycles that blocks spend if they copy it."""
    shared_reads_fit_l2: bool
    """Whether what several blocks read stays in L2 between them."""


class KernelCost:
    """Predicts schedules of one kernel, on one machine with so many threads."""

    def __init__(
        self, kernel: TileKernel, roles: IndexRoles, machine: CpuMachine, threads: int
    ) -> None:
        self._kernel, self._roles, self._threads = kernel, roles, threads
        self._machine, self._widest, self._l2 = machine, machine.width, machine.l2
        self._works_by_packing: dict[_PackedInputs, list[_StageWork]] = {}
        self._reads = [self._read(buffer) for buffer in kernel.inputs]
        self._made = _tiled_inputs(kernel)
        self._narrow = frozenset(tile.name for tile in widenable_tiles(kernel))
        self._written = sum(bytes_of(buffer.dtype, buffer.shape) for buffer in kernel.outputs)
        self._cuts, self._summed = cache(self._count_tiles), cache(ReductionCost(machine.l1).cycles)
        self._passes = cache(self._stage_runs)

    def seconds(self, schedule: Schedule) -> float:
        """Predicted seconds of the kernel under a `schedule`; meant to be compared with those of
        another schedule of the same kernel."""
        laid = (*schedule.layouts, *schedule.panels)
        if laid not in self._works_by_packing:
            self._works_by_packing[laid] = self._stage_works(
                {**schedule.layouts, **schedule.panels}
            )
        cuts, works = self._cuts(tuple(schedule.tiles.items()), laid), self._works_by_packing[laid]
        # An output without elements has no blocks, and its kernel nothing to do.
        if not cuts.blocks:
            return 0.0
        # A stage that a later pass reads again is computed in both passes, unless the schedule
        # keeps its tiles.
        turns = self._passes(schedule.serial, schedule.keeps)
        cycles = sum(
            times * cuts.same[at] * self._cycles(works[at], at, schedule, cuts)
            for at, times in enumerate(turns)
            if times
        )
        # Copies do not overlap with anything: products start when the tile is complete.
        copied = {*schedule.staged, *schedule.panels, *self._made}
        reads = zip(self._reads, cuts.copy_cycles, strict=True)
        cycles += sum(waits for read, waits in reads if read.name in copied)
        beside = (cycles / CLOCK_HERTZ, *self._traffic(schedule, cuts))
        block = (
            sum(seconds**_OVERLAP_NORM for seconds in beside) ** (1 / _OVERLAP_NORM) / cuts.blocks
        )
        # Threads take blocks until none is left. The last one to begin has up to one block less
        # time, which hurts where blocks are long; but it is never later than its own start plus the
        # slowdown of a shared core.
        return self._transpose_seconds(schedule) + float(
            -(-cuts.blocks // self._threads) * block
            + min(
                _LAST_THREAD_BLOCK_FRACTION * block,
                _LAST_THREAD_START_SECONDS + _SHARED_CORE_SLOWDOWN * block,
            )
        )

    def _count_tiles(self, tiles: tuple[tuple[str, int], ...], laid: _PackedInputs) -> _TileCounts:
        """The counts for these tile sizes; `laid` names the packed inputs."""
        cut, works = Schedule(dict(tiles)), self._works_by_packing[laid]
        shapes = [stage_work.shape for stage_work in works]
        readers = tuple(_tiles(read.missing, cut) for read in self._reads)
        reads = zip(self._reads, readers, strict=True)
        # Inputs that a single block reads stream through L2 and evict little: only what is read
        # again has to fit.
        fits = sum(self._slice(read, cut) for read, times in reads if times > 1) <= self._l2
        return _TileCounts(
            _tiles(self._roles.blocked, cut),
            tuple(_tiles(stage_work.missing, cut) for stage_work in works),
            tuple(_tile(shape.row, cut) for shape in shapes),
            tuple(_tile(shape.along, cut) for shape in shapes),
            tuple(_tile(shape.inner, cut) for shape in shapes),
            readers,
            tuple(
                _copying(read, cut, times, 1 if fits else times)
                for read, times in zip(self._reads, readers, strict=True)
            ),
            fits,
        )

    def _transpose_seconds(self, schedule: Schedule) -> float:
        """Seconds of the kernels that transpose inputs beforehand. Each transposed input is charged
        in full, even where another kernel of the module shares the copy."""
        seconds = 0.0
        for read in self._reads:
            layout = schedule.transposed.get(read.name)
            if layout is not None:
                threads = transposing_threads(layout, read.shape, self._threads)
                seconds += (
                    KERNEL_START_SECONDS
                    + read.bytes * _COPY_CYCLES_PER_BYTE / CLOCK_HERTZ / threads
                )
        return seconds

    def _stage_works(self, layouts: Mapping[str, PackedLayout]) -> list[_StageWork]:
        """The work of each stage where these inputs are packed, which decides over which index a
        stage is vectorised."""
        shapes = (
            (stage, unblocked_shape(self._kernel, stage, self._machine, layouts))
            for stage in self._kernel.stages
        )
        return [self._work(*stage_and_shape) for stage_and_shape in shapes]

    def _work(self, stage: KernelStage, shape: RegisterShape) -> _StageWork:
        """The work of one stage in this register layout."""
        used, machine = {*stage.free, *stage.folded}, self._machine
        applied = [node for node in walk(stage.value) if isinstance(node, Apply)]
        steps = sum(
            _OPERATION_CYCLES.get(call.operation, _SIMPLE_OPERATION_CYCLES) for call in applied
        )
        shares = stage.reduction is ReductionKind.SUM and shape.along not in stage.folded
        reduction = _reduction_work(stage, shape, machine) if shares else None
        return _StageWork(
            shape,
            work(stage),
            tuple(index for index in self._roles.blocked if index not in used),
            # Two loads are issued per cycle.
            max(len(stage.loads) / 2, steps, 1.0),
            reduction,
            replace(reduction, dots=False, slow=False) if reduction else None,
            shape.along in stage.folded,
            frozenset(_strided_broadcast_inputs(stage, shape)),
            inputs_exceeding_l2(stage, shape, self._kernel.inputs, machine.l2),
            frozenset(load.buffer.name for load in stage.loads),
            frozenset(_half_operands(stage, shape, moving=True)),
            frozenset(_half_operands(stage, shape, moving=False)),
        )

    def _read(self, buffer: Buffer) -> _InputTraffic:
        """The traffic of one input."""
        stages = self._kernel.stages
        loads = [load for stage in stages for load in stage.loads if load.buffer == buffer]
        used = {index for load in loads for index in _used(load)}
        mine = [load for load in self._roles.stage.loads if load.buffer == buffer]
        matrix = bytes_of(buffer.dtype, buffer.shape[-2:])
        return _InputTraffic(
            buffer.name,
            buffer.shape,
            bytes_of(buffer.dtype, buffer.shape),
            tuple(index for index in self._roles.blocked if index not in used),
            any(self._roles.along in _used(load) for load in mine),
            single_index(loads[0].at[-1]) if loads[0].at and matrix > self._l2 else None,
        )

    def _stage_runs(self, name: str | None, keeps: bool) -> list[int]:
        """How often each stage runs, in passes along the serial index of this `name`."""
        serial = next((index for index in self._kernel.indices if index.name == name), None)
        runs: Counter[Buffer] = Counter()
        for serial_pass in serial_passes(self._kernel, serial, keeps=keeps):
            runs.update(stage.target for stage in (*serial_pass.before, *serial_pass.along))
        return [runs[stage.target] for stage in self._kernel.stages]

    def _cycles(
        self, stage_work: _StageWork, at: int, schedule: Schedule, cuts: _TileCounts
    ) -> float:
        """Cycles of the stage at position `at`, once through all of its work."""
        request, lanes = schedule.registers, schedule.lanes(self._widest)
        if stage_work.sum is None or stage_work.widened_sum is None:
            along = stage_work.shape.along.size if stage_work.shape.along is not None else 1
            joined = (
                stage_work.total / cuts.columns[at] * _LANE_REDUCTION_CYCLES
                if stage_work.lane_reduction
                else 0.0
            )
            return stage_work.total / min(lanes, along) * stage_work.cycles + joined
        rows, vectors = request.rows or 4, request.vectors or 2
        wide = self._widened(schedule)
        # The dot instruction takes bf16 on both sides: an operand that was widened forces the sum
        # to f32.
        dots = (
            stage_work.sum.dots
            and wide.isdisjoint(stage_work.lane_halves)
            and wide.isdisjoint(stage_work.broadcast_halves)
        )
        reduction = stage_work.sum if dots else stage_work.widened_sum
        placement = self._placement(stage_work, schedule, cuts.columns[at], vectors * lanes)
        if not dots and (stage_work.lane_halves or stage_work.broadcast_halves):
            widening = _widening(stage_work.lane_halves - wide, schedule)
            spreading = (
                _BROADCAST_WIDENING_INSTRUCTIONS if stage_work.broadcast_halves - wide else 0
            )
            placement = replace(placement, widening=widening, spreading=spreading)
        tile, depth = cuts.rows[at], cuts.depths[at]
        return self._summed(reduction, tile, depth, rows, vectors, lanes, request.matrix, placement)

    def _placement(
        self, stage_work: _StageWork, schedule: Schedule, columns: int, panel: int
    ) -> OperandPlacement:
        """Where the operands of a stage are, in a block of `columns` columns with panels of `panel`
        columns."""
        read, layouts = stage_work.read, schedule.layouts
        apart = stage_work.exceeding_l2 - layouts.keys() - schedule.panels.keys()
        along = stage_work.shape.along
        whole = along is None or columns >= along.size
        return OperandPlacement(
            not (read.isdisjoint(layouts) and read.isdisjoint(schedule.panels)),
            any(layout.coded for name, layout in layouts.items() if name in read),
            bool(stage_work.strided_broadcast)
            and stage_work.strided_broadcast.isdisjoint(schedule.staged)
            and stage_work.strided_broadcast.isdisjoint(schedule.transposed),
            read.isdisjoint(schedule.panels),
            # With one panel per block, the next serial tile continues where this one ended, and the
            # prefetcher with it.
            columns <= panel and not read.isdisjoint(layouts),
            # A block as wide as the matrix reads whole rows, so the end of one is the start of the
            # next.
            max(1.0, columns / panel) if apart and not whole else 0.0,
        )

    def _widened(self, schedule: Schedule) -> frozenset[str]:
        """Names of the buffers that hold f32 in place of 16-bit floats."""
        if not schedule.wide:
            return frozenset()
        return self._narrow.union(schedule.staged, schedule.transposed, schedule.panels)

    def _traffic(self, schedule: Schedule, cuts: _TileCounts) -> tuple[float, float]:
        """Seconds of traffic from DRAM, and from L2 for what it keeps between blocks."""
        memory, near = float(self._written), 0.0
        for traffic, readers in zip(self._reads, cuts.readers, strict=True):
            layout = schedule.layouts.get(traffic.name)
            read = traffic.bytes * (CODED_SIZE_RATIO if layout and layout.coded else 1)
            # If it does not stay in L2, every block that needs it reads it from DRAM again.
            memory += read * (1 if cuts.shared_reads_fit_l2 else readers)
            near += read * (readers - 1 if cuts.shared_reads_fit_l2 else 0)
            if traffic.strides and traffic.name not in schedule.layouts:
                memory += traffic.bytes * _STRIDED_REREAD_FRACTION
        return memory / _DRAM_BYTES_PER_SECOND_PER_THREAD, near / L2_BYTES_PER_SECOND

    def _slice(self, traffic: _InputTraffic, schedule: Schedule) -> float:
        """Bytes that one block reads of an input."""
        read_indices = (index for index in self._roles.blocked if index not in traffic.missing)
        return traffic.bytes / max(_tiles(read_indices, schedule), 1)


def _reduction_work(stage: KernelStage, shape: RegisterShape, machine: CpuMachine) -> ReductionWork:
    """The stage as `ReductionWork`: dot instruction and AMX need a bf16 product with one operand
    contiguous along the reduced index."""
    pairs = is_bf16_product(stage) and is_contiguous_along(stage, shape.inner)
    dots, matrix = machine.bf16_dot and pairs, machine.bf16_matrix and pairs
    inner = shape.inner.size if shape.inner is not None else 1
    return ReductionWork(work(stage), inner, dots, dots and machine.slow_dots, matrix)


def _half_operands(stage: KernelStage, shape: RegisterShape, *, moving: bool) -> Iterator[str]:
    """Yields 16-bit operands: those that vary along the lanes if `moving`, else those broadcast."""
    for load in stage.loads:
        if load.buffer.dtype in HALVES and (shape.along in _used(load)) is moving:
            yield load.buffer.name


def _widening(names: frozenset[str], schedule: Schedule) -> int:
    """Instructions that widen a vector of these operands: one where rows are interleaved in pairs,
    as a shift or a mask gives either row, and two otherwise."""
    if not names:
        return 0
    laid = {*schedule.layouts, *schedule.panels}
    return 2 if names.isdisjoint(laid) else 1


def _strided_broadcast_inputs(stage: KernelStage, shape: RegisterShape) -> Iterator[str]:
    """Yields broadcast operands whose innermost axis is not the row index."""
    for load in stage.loads:
        shared = shape.row in _used(load) and shape.along not in _used(load)
        if shared and single_index(load.at[-1]) != shape.row:
            yield load.buffer.name


def _tiled_inputs(kernel: TileKernel) -> frozenset[str]:
    """Inputs that an elementwise stage turns into a tile of the block, at least as large as the
    stage's work: as expensive as a copy."""
    stages = (
        stage for stage in kernel.stages if not stage.folded and stage.target not in kernel.outputs
    )
    inputs = {buffer for buffer in kernel.inputs if len(buffer.shape) > 1}
    return frozenset(
        load.buffer.name
        for stage in stages
        for load in stage.loads
        if load.buffer in inputs and math.prod(load.buffer.shape) >= stage.work
    )


def _copying(traffic: _InputTraffic, cut: Schedule, readers: int, again: int) -> float:
    """Cycles that all blocks spend copying one input, `readers` times, of which `again` times come
    from DRAM.

    In a matrix larger than L2, each row of a tile is elsewhere in memory, which costs
    `ROW_JUMP_CYCLES` per row.
    """
    waits = readers * traffic.bytes * _COPY_CYCLES_PER_BYTE
    if traffic.columns is None or cut.count(traffic.columns) == 1:
        return waits
    # A row of a tile is contiguous, and the next one is a whole matrix row away: the jump is paid
    # once per row, and at least per cache line.
    row = cut.tile(traffic.columns) * traffic.bytes // math.prod(traffic.shape)
    return waits + again * traffic.bytes * (
        _STRIDED_COPY_CYCLES_PER_BYTE + ROW_JUMP_CYCLES / max(row, CACHE_LINE_BYTES)
    )


def _used(load: BufferLoad) -> Collection[LoopIndex]:
    """The indices that a `load` depends on."""
    return {index for position in load.at for index in indices(position)}


def _tile(index: LoopIndex | None, schedule: Schedule) -> int:
    """The tile size along an `index`; 1 without an index."""
    return 1 if index is None else schedule.tile(index)


def _tiles(tiled_indices: Iterable[LoopIndex], schedule: Schedule) -> int:
    """How many tiles these indices are cut into together."""
    return math.prod(map(schedule.count, tiled_indices))
