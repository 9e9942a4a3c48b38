"""The schedule space of kernels whose main stage reduces: register tiles, cache tiles, packing,
prefetch.

The problem: of all ways to run the loops of a kernel, declare those that may be fastest as
parameters with values, and everything that does not go together as constraints over few parameters
each. A tuner then enumerates or mutates points without ever compiling what cannot work, and no two
points describe the same code.

Example: f32 `X[8, 4096] @ W[4096, 4096]` with W constant, on a Zen 4 with 2 threads, has 1,621
legal points with the parameters marked `fine` at their defaults. The one with the least predicted
time, 1.25 ms, is packed=True, registers=(8, 2, False) and serial=("k", 512): blocks of 8 rows by 32
columns hold 16 accumulators in registers, W lies in panels of 32 columns, the products of 512 rows
of a panel are added before the accumulators go to scratch, and rows of the panel are prefetched 16
pairs ahead. If W may change from call to call, 956 points are left, the best predicted at 1.77 ms:
2,048 columns and 8 rows of W at a time, prefetched along the rows. Timed points then lead to their
neighbours, which differ in one parameter, `fine` ones included.

Invariants:

- A register tile is rows times vectors of accumulators, and fits the registers.
- A panel of packed columns is as wide as the vectors of a register tile.
- A tile along the vectorised index is whole panels, so panels are never cut.
- The tiles that a block keeps fit L2 (`BlockFootprint`).
- A default is written as "not said" (`None`, 0), so that equal code has one point.

Three classes share the parameters: `LaneReductionSpace` those of reductions vectorised over the
reduced index, `PrefetchSpace` those of prefetching, `ReductionSpace` all others. Constraints cost a
cached lookup each; ranking this space takes a third of a second.
`docs/why/kernels.md` explains every choice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

from ....tensor.types import HALVES
from ...ir import LoopIndex, TileKernel, single_index
from ...native.machine import CpuMachine
from ...schedule.space import ParameterValues, ScheduleConstraint, ScheduleParameter
from ..cost.kernel_cost import KernelCost
from ..emit.panels import is_transposable
from ..index_roles import (
    IndexRoles,
    codable_inputs,
    inputs_exceeding_l2,
    interleavable_inputs,
    is_contiguous_along,
    packable_inputs,
)
from ..packing import PackedLayout
from ..prepare.precision import is_bf16_product, may_widen, widenable_tiles
from ..reduce.amx_unit import AMX_DEPTH
from ..register_layout import RegisterRequest
from ..schedule import Schedule
from .block_footprint import BlockFootprint
from .lane_reduction_space import LaneReductionSpace
from .parameter_values import (
    L1_WAYS_TILE,
    LEAST_PANEL_COLUMNS,
    NO_REGISTER_TILE,
    PANEL_COUNTS,
    PREFETCH_DISTANCE_FACTORS,
    UNROLL_FACTORS,
    LaneReductionCounts,
    RegisterCounts,
    RowSharing,
    SerialTile,
    row_tiles,
    serial_tiles,
    shared_rows,
    unit_tiles,
    vector_width_parameter,
)

_HARDWARE_STREAM_BYTES = 4096
"""Default prefetch distance in bytes for operands that come from DRAM: packed inputs, and large
inputs as they are. One page, where hardware prefetchers stop; fitted to `benchmarks/kernels.py` and
`benchmarks/hand.py`.
"""
_LEAST_ROW_BYTES_PREFETCHED = 512
"""Default prefetch distance in bytes along each row, for unpacked rows of which a block reads a few
side by side; a distance in register tiles is the same number of elements for bf16, and so half the
bytes. Fitted to `benchmarks/hand.py --lying`.
"""


class PrefetchParameters(NamedTuple):
    """The parameters on which the prefetch distance depends, in the order of
    `PrefetchSpace.constraints`."""

    packed: bool
    coded: bool
    laid: bool
    registers: RegisterCounts
    width: int
    panels: int
    serial: SerialTile
    down: bool
    """Whether the next rows are prefetched where the default is further along the same rows."""
    ahead: float | None
    """Multiple of the default distance; `None` for the default itself."""


@dataclass(frozen=True)
class PrefetchSpace:
    """Prefetch distance and direction, for one kernel on one machine.

    A packed operand is contiguous, so the distance is bytes further down the panel. An unpacked
    operand larger than L2 is read in rows thousands of bytes apart: a block reads few rows side by
    side, and prefetches further along each; at the end of its tile, the next rows.
    """

    exceeding_l2: frozenset[str]
    """The inputs that the main stage reads row by row and that are larger than L2."""
    inner: LoopIndex | None
    """The index along which those rows follow each other."""
    layouts: Collection[PackedLayout]
    """Layouts of the inputs that may be packed beforehand."""
    laid: Mapping[tuple[bool, bool], Mapping[str, PackedLayout]]
    """Layouts of all packed inputs, by whether inputs are packed beforehand and by whether each
    block packs some."""
    widest: int
    """Bytes of the widest vectors."""
    cut: bool
    """Whether the vectorised index is cut into blocks of `PrefetchParameters.panels` panels
    each."""

    @property
    def constraints(self) -> Sequence[ScheduleConstraint]:
        """Constraints that drop equal distances, and directions where nothing is prefetched."""
        return (
            ScheduleConstraint(("packed", "laid", "serial"), self._may_be_few_rows),
            ScheduleConstraint(
                PrefetchParameters._fields,
                lambda *chosen: self._is_distinct(PrefetchParameters(*chosen)),
            ),
            ScheduleConstraint(
                PrefetchParameters._fields,
                lambda *chosen: self._may_prefetch_down(PrefetchParameters(*chosen)),
            ),
            ScheduleConstraint(
                (*PrefetchParameters._fields, "nearest"),
                lambda *chosen: self._may_prefetch_to_l1(
                    PrefetchParameters(*chosen[:-1]), nearest=chosen[-1]
                ),
            ),
        )

    def distance_and_direction(self, of: PrefetchParameters) -> tuple[int, bool]:
        """The distance, and whether it is along the rows."""
        distance = self.distance(of)
        return distance, distance > 0 and self.is_across(of)

    def distance(self, of: PrefetchParameters) -> int:
        """The prefetch distance: pairs of rows, or register tiles if `is_across`; 0 where nothing
        is prefetched."""
        if of.registers == NO_REGISTER_TILE:
            return 0
        lies = self._reads_unpacked(of.packed, of.laid)
        # What each block has packed itself is in L2 already: no prefetch by default.
        streams = of.packed or lies if of.ahead is None else of.ahead
        pairs_ahead = int(self._default_pairs(of, lies) * streams)
        # Beyond the end of the block's tile there is another block's data, which another thread may
        # read.
        return min(pairs_ahead, of.panels) if self.cut and self.is_across(of) else pairs_ahead

    def is_across(self, of: PrefetchParameters) -> bool:
        """Whether the prefetch goes further along the same rows, rather than to later rows."""
        _, _, matrix = of.registers
        lies = self._reads_unpacked(of.packed, of.laid) and not of.packed
        return lies and self._steps_down_rows(of.serial) and not matrix and not of.down

    def _default_pairs(self, of: PrefetchParameters, lies: bool) -> int:
        """The default distance, in pairs of rows or, along the rows, in register tiles.

        Coded panels are read as two streams of fewer bytes, so their distance is twice as far, and
        four times where one row computes little between two loads. Unpacked rows read a tile at a
        time are prefetched one serial tile ahead.
        """
        rows, vectors, _ = of.registers
        wide = vectors * (of.width or self.widest)
        if self.is_across(of):
            return max(1, _LEAST_ROW_BYTES_PREFETCHED // wide)
        if lies and self._steps_down_rows(of.serial):
            return of.serial[1] // 2
        stream_pairs = (
            _HARDWARE_STREAM_BYTES
            // wide
            // (1 if any(layout.pairs for layout in self.layouts) else 2)
        )
        # On a Zen 4, eight times as far was no faster than four for one row (`benchmarks/hand.py
        # --rows 1`).
        return stream_pairs * (4 if rows == 1 else 2) if of.coded else stream_pairs

    def _reads_unpacked(self, packed: bool, laid: bool) -> bool:
        """Whether an input larger than L2 is read without packing."""
        return bool(self.exceeding_l2 - self.laid[packed, laid].keys())

    def _may_be_few_rows(self, packed: bool, laid: bool, serial: SerialTile) -> bool:
        """Allows serial tiles of `L1_WAYS_TILE` only for unpacked rows, as packed ones do not
        conflict in L1."""
        return serial[1] != L1_WAYS_TILE or self._reads_unpacked(packed, laid)

    def _steps_down_rows(self, serial: SerialTile) -> bool:
        """Whether the `serial` index is the one that the main stage reduces innermost."""
        name, _ = serial
        return self.inner is not None and name == self.inner.name

    def _is_distinct(self, of: PrefetchParameters) -> bool:
        """Drops multiples that give the default distance, and all but one that give none."""
        if of.ahead is None:
            return True
        distance, usual = self.distance(of), self.distance(of._replace(ahead=None))
        return distance != usual and (distance > 0 or of.ahead == 0)

    def _may_prefetch_down(self, of: PrefetchParameters) -> bool:
        """Allows `down` only where something is prefetched, by default along the rows."""
        along_rows = of._replace(down=False)
        return not of.down or (self.is_across(along_rows) and self.distance(of) > 0)

    def _may_prefetch_to_l1(self, of: PrefetchParameters, *, nearest: bool) -> bool:
        """Allows `nearest` only for prefetches of later rows, as those along the rows always go to
        L1."""
        return not nearest or (self.distance(of) > 0 and not self.is_across(of))


class TilingParameters(NamedTuple):
    """The parameters on which tile sizes depend, in the order of the constraints that name them."""

    registers: RegisterCounts
    width: int
    panels: int
    row: int
    serial: SerialTile


class ReductionValues(NamedTuple):
    """The values of a point of `ReductionSpace`; a field for each of its parameters."""

    packed: bool
    """Whether inputs are packed into panels beforehand."""
    coded: bool
    """Whether packed panels are compressed."""
    registers: RegisterCounts
    panels: int
    """How many panels of columns a block has."""
    row: int
    """Rows of a block."""
    serial: SerialTile
    keeps: bool
    """Whether a block keeps what it copied for its next pass along the serial index."""
    shared: RowSharing
    laid: bool
    """Whether each block packs panels for itself."""
    wide: bool
    """Whether 16-bit elements are widened before they are multiplied."""
    ahead: float | None
    nearest: bool
    """Whether what is prefetched goes to L1."""
    down: bool
    unrolled: int
    lanes: LaneReductionCounts | None
    chains: int
    """Accumulators of a sum along the lanes; 0 for the default."""
    fastest: str | None
    """The index along which blocks follow each other; `None` for the innermost."""
    width: int
    """Bytes of a vector; 0 stands for the widest."""

    @property
    def tiling(self) -> TilingParameters:
        """What tile sizes depend on."""
        return TilingParameters(self.registers, self.width, self.panels, self.row, self.serial)

    @property
    def prefetch(self) -> PrefetchParameters:
        """What the prefetch distance depends on."""
        return PrefetchParameters(
            self.packed, self.coded, self.laid, self.registers, self.width, self.panels,
            self.serial, self.down, self.ahead,
        )  # fmt: skip


class ReductionSpace:
    """The schedules of one kernel, whose main stage reduces, on one machine.

    `layouts` are those of inputs that may be packed beforehand, `predictor` ranks the points.
    """

    def __init__(
        self,
        kernel: TileKernel,
        roles: IndexRoles,
        machine: CpuMachine,
        threads: int,
        layouts: Mapping[str, PackedLayout],
        predictor: KernelCost,
    ) -> None:
        self._kernel, self._roles, self._machine, self._threads = kernel, roles, machine, threads
        self._widest = machine.width
        self._unit_tiles = unit_tiles(roles)
        # Widened tiles take twice the bytes of 16-bit floats, so each answer has its own footprint.
        self._footprints = {wide: BlockFootprint(kernel, wide=wide) for wide in (False, True)}
        self._l2_bytes = machine.l2
        self._half_inputs = {buffer.name for buffer in kernel.inputs if buffer.dtype in HALVES}
        self._computes_halves = bool(widenable_tiles(kernel))
        self._layouts = layouts
        self._codable = codable_inputs(kernel, layouts, machine)
        self._panels = {
            # What a block may pack depends on what is packed already, so both answers are computed
            # once.
            packed: packable_inputs(
                kernel,
                [
                    buffer.name
                    for buffer in kernel.inputs
                    if not (packed and buffer.name in layouts)
                ],
                machine,
                again=True,
            )
            for packed in (True, False)
        }
        self._shared = shared_rows(kernel, roles, machine)
        self._laid = {
            (packed, laid): {
                **(layouts if packed else {}),
                **(self._panels[packed] if laid else {}),
            }
            for packed, laid in product((False, True), repeat=2)
        }
        self._lane_reductions = LaneReductionSpace(kernel, roles, machine, self._laid)
        self._prefetching = PrefetchSpace(
            inputs_exceeding_l2(roles.stage, roles.shape, kernel.inputs, machine.l2),
            roles.shape.inner,
            layouts.values(),
            self._laid,
            machine.width,
            roles.along in roles.blocked,
        )
        # The cost of a search is in these lookups, as many points differ only in parameters that
        # the cached function does not take.
        self._chosen_prefetch = cache(self._prefetching.distance_and_direction)
        self._packed_columns = cache(self._list_packed_columns)
        self._chosen_tiling = cache(self._choose_tiling)
        self._chosen_layouts = cache(self._choose_layouts)
        self.seconds = predictor.seconds

    @cached_property
    def parameters(self) -> Sequence[ScheduleParameter]:
        """All parameters; those marked `fine` keep their default until trials say otherwise."""
        roles, kernel = self._roles, self._kernel
        packed = (True, False) if self._layouts else (False,)
        cut = roles.along in roles.blocked
        return (
            ScheduleParameter("packed", packed),
            ScheduleParameter("coded", (False, True) if self._codable else (False,)),
            ScheduleParameter("registers", self._lane_reductions.registers),
            ScheduleParameter("panels", PANEL_COUNTS if cut else PANEL_COUNTS[:1]),
            ScheduleParameter("row", tuple(row_tiles(roles))),
            ScheduleParameter("serial", tuple(serial_tiles(roles, kernel.outputs))),
            ScheduleParameter(
                "keeps", (False, True) if self._footprints[False].kept_along else (False,)
            ),
            ScheduleParameter(
                "shared", tuple(RowSharing) if self._shared else (RowSharing.AS_THEY_ARE,)
            ),
            ScheduleParameter("laid", (False, True) if any(self._panels.values()) else (False,)),
            ScheduleParameter(
                "wide", (False, True) if may_widen(kernel, self._machine) else (False,)
            ),
            ScheduleParameter("ahead", PREFETCH_DISTANCE_FACTORS, fine=True),
            ScheduleParameter("nearest", (False, True), fine=True),
            ScheduleParameter("down", (False, True), fine=True),
            ScheduleParameter("unrolled", UNROLL_FACTORS, fine=True),
            *self._lane_reductions.parameters,
            ScheduleParameter(
                "fastest", (None, *(index.name for index in roles.blocked[:-1])), fine=True
            ),
            vector_width_parameter(self._machine),
        )

    @cached_property
    def constraints(self) -> Sequence[ScheduleConstraint]:
        """All constraints, each over the fewest parameters that decide it, so that an enumeration
        cuts early."""
        return (
            # The first, as all that ask how indices are cut rely on it.
            ScheduleConstraint(("registers", "width", "panels"), self._has_columns),
            ScheduleConstraint(("registers", "width", "serial"), self._has_vectors),
            ScheduleConstraint(("registers", "row"), self._has_rows),
            ScheduleConstraint(("packed", "laid"), self._has_panels),
            ScheduleConstraint(("registers", "row", "laid"), self._reads_again),
            ScheduleConstraint(("coded", "registers", "width"), self._is_wide),
            # Coded panels exist only beforehand: a block that packs has the uncoded elements at
            # hand.
            ScheduleConstraint(("packed", "coded", "laid", "registers"), self._may_be_coded),
            ScheduleConstraint(("packed", "laid", "registers", "serial"), self._suits_matrices),
            ScheduleConstraint(("packed", "laid", "registers", "shared"), self._may_transpose),
            ScheduleConstraint(("packed", "laid", "shared"), self._may_be_copied),
            ScheduleConstraint(("packed", "laid", "registers", "shared", "wide"), self._widens),
            ScheduleConstraint(("serial", "unrolled"), self._may_unroll),
            *self._prefetching.constraints,
            *self._lane_reductions.constraints,
            ScheduleConstraint(("serial", "keeps"), self._may_keep),
            ScheduleConstraint((*TilingParameters._fields, "coded"), _of_tiling(self._cuts_codes)),
            ScheduleConstraint(
                (*TilingParameters._fields, "packed", "laid"), _of_tiling(self._cuts_vectors)
            ),
            ScheduleConstraint(
                (*TilingParameters._fields, "fastest"), _of_tiling(self._changes_order)
            ),
            ScheduleConstraint(
                (*TilingParameters._fields, "packed", "laid", "shared", "keeps", "wide"),
                _of_tiling(self._fits_l2),
            ),
        )

    def schedule(self, chosen: ParameterValues) -> Schedule:
        """The schedule of a point."""
        values = ReductionValues(**chosen)
        packed, coded, registers = values.packed, values.coded, values.registers
        rows, vectors, matrix = registers
        panel = self._panel(registers, values.width)
        ahead, across = self._chosen_prefetch(values.prefetch)
        return Schedule(
            self._chosen_tiling(values.tiling).tiles,
            values.serial[0],
            RegisterRequest(
                rows,
                vectors,
                values.unrolled,
                ahead,
                matrix,
                # Along the rows the distance is short: lines are used soon, so they go to L1.
                values.nearest or across,
                across,
                self._lane_reductions.sum_tile(packed, values.laid, values.lanes),
                values.chains,
            ),
            self._chosen_layouts(packed, coded, panel),
            self._copied(values.shared),
            _without_pairs_if_widened(
                self._transposed(packed, values.laid, registers, values.shared), values.wide
            ),
            _without_pairs_if_widened(
                self._chosen_layouts(packed, None, panel) if values.laid else {}, values.wide
            ),
            values.fastest,
            values.keeps,
            values.width,
            values.wide,
        )

    def _panel(self, registers: RegisterCounts, width: int) -> int:
        """Columns of a packed panel for this register tile and vector width."""
        return (
            LEAST_PANEL_COLUMNS
            if registers == NO_REGISTER_TILE
            else self._vector(width) // 4 * registers[1]
        )

    def _vector(self, width: int) -> int:
        """Bytes of a vector; 0 stands for the widest."""
        return width or self._widest

    def _choose_layouts(
        self, packed: bool, coded: bool | None, panel: int
    ) -> dict[str, PackedLayout]:
        """Layouts of packed inputs with panels of so many columns: those packed beforehand, `coded`
        or not, or with `coded=None` those that each block packs."""
        if coded is None:
            return {
                name: replace(layout, width=panel) for name, layout in self._panels[packed].items()
            }
        codes = self._codable if coded else {}
        return {
            name: replace(layout, width=panel, coded=name in codes)
            for name, layout in (self._layouts if packed else {}).items()
        }

    def _copied(self, shared: RowSharing) -> tuple[str, ...]:
        """Names of the inputs that each block copies."""
        return tuple(self._shared) if shared is RowSharing.COPIED else ()

    def _choose_tiling(self, of: TilingParameters) -> Schedule:
        """A schedule with tile sizes and nothing else."""
        roles, tiles = self._roles, dict(self._unit_tiles)
        if roles.along in roles.blocked and roles.along is not None:
            column = self._column(of.panels, self._panel(of.registers, of.width))
            # The constraint `_has_columns` is listed first and has dropped these points.
            assert column is not None, "there are not so many panels"
            tiles[roles.along.name] = column
        if roles.row in roles.blocked and roles.row is not None:
            tiles[roles.row.name] = of.row
        name, length = of.serial
        if name is not None:
            tiles[name] = length
        return Schedule(tiles)

    def _list_packed_columns(self, packed: bool, laid: bool) -> list[LoopIndex]:
        """The indices along which the columns of packed inputs run."""
        layouts = self._laid[packed, laid]
        loads = [load for stage in self._kernel.stages for load in stage.loads]
        read = [(load, layouts[load.buffer.name]) for load in loads if load.buffer.name in layouts]
        columns = [single_index(load.at[layout.column]) for load, layout in read]
        return [column for column in columns if column is not None]

    def _has_columns(self, registers: RegisterCounts, width: int, panels: int) -> bool:
        """Drops panel counts that give the same tile as a smaller count."""
        return self._column(panels, self._panel(registers, width)) is not None

    def _column(self, count: int, panel: int) -> int | None:
        """The tile along the vectorised index for `count` panels; `None` where half as many panels
        give the same tile.

        Example: 4,096 columns on 2 threads are 2,048 each, so panels of 32 columns number 64 at
        most, and counts up to 64 differ. With 100 columns a thread has 50 and 2 panels: counts 1
        and 2 differ, count 4 gives `None`.
        """
        along = self._roles.along
        assert along is not None
        if along not in self._roles.blocked:
            return along.size
        # Each thread should get a block, so no tile is wider than its share.
        most = -(-along.size // self._threads)
        whole = -(-most // panel)
        return panel * min(count, whole) if count == 1 or count // 2 < whole else None

    def _has_vectors(self, registers: RegisterCounts, width: int, serial: SerialTile) -> bool:
        """Drops register tiles wider than every vectorised index is long."""
        _, vectors, matrix = registers
        if matrix or self._roles.along in self._roles.stage.folded:
            return True
        most = max(self._tile_length(index, serial) for index in self._lanes)
        return vectors <= max(1, -(-most // (self._vector(width) // 4)))

    @cached_property
    def _lanes(self) -> list[LoopIndex]:
        """The vectorised index of each reduction, except reductions vectorised over the reduced
        index."""
        shapes = self._roles.shapes.items()
        reductions = ((stage, shape.along) for stage, shape in shapes if stage.folded)
        return [
            index for stage, index in reductions if index is not None and index not in stage.folded
        ]

    def _has_rows(self, registers: RegisterCounts, row: int) -> bool:
        """Drops register tiles with more rows than a block's tile."""
        rows, _, _ = registers
        return rows <= row

    def _has_panels(self, packed: bool, laid: bool) -> bool:
        """Allows packing in each block only if there is an input to pack."""
        return not laid or bool(self._panels[packed])

    def _reads_again(self, registers: RegisterCounts, row: int, laid: bool) -> bool:
        """Allows packing in each block only if several register tiles of rows read the packed tile,
        which has to pay for the copy."""
        rows, _, matrix = registers
        # A matrix unit reads each tile of W once per 16 rows, so there a single register tile may
        # pay for the copy.
        return not laid or (self._roles.row is not None and row >= (1 if matrix else 3) * rows)

    def _is_wide(self, coded: bool, registers: RegisterCounts, width: int) -> bool:
        """Allows narrower vectors only without coded panels and without AMX: both are written for
        the widest."""
        return self._vector(width) == self._widest or not (coded or registers[2])

    def _may_be_coded(
        self, packed: bool, coded: bool, laid: bool, registers: RegisterCounts
    ) -> bool:
        """Allows coded panels only where inputs are packed beforehand and a panel is an even number
        of vectors, as two are decoded at once."""
        return not coded or (packed and not laid and registers[1] % 2 == 0)

    def _suits_matrices(
        self, packed: bool, laid: bool, registers: RegisterCounts, serial: SerialTile
    ) -> bool:
        """Allows AMX only where the main stage adds at least `AMX_DEPTH` products at a time, with
        one operand packed or interleavable and the other contiguous along the reduced index."""
        if not registers[2]:
            return True
        inner, stage = self._roles.shape.inner, self._roles.stage
        read = {load.buffer.name for load in stage.loads}
        # AMX needs rows of the vectorised operand interleaved in pairs: by packing, or by the
        # kernel right before each load.
        moving = self._laid[packed, laid].keys() & read or interleavable_inputs(
            stage, self._roles.shape
        )
        return (
            self._depth(serial) >= AMX_DEPTH
            and bool(moving)
            and is_contiguous_along(stage, inner, moving)
        )

    def _may_unroll(self, serial: SerialTile, unrolled: int) -> bool:
        """Drops unroll factors that a `serial` tile is too short for; a step takes two rows where
        rows are interleaved in pairs."""
        pairs = any(layout.pairs for laid in self._laid.values() for layout in laid.values())
        # The dot instruction takes two rows even where no layout has interleaved them.
        pairs |= self._machine.bf16_dot and is_bf16_product(self._roles.stage)
        step, usual = 2 if pairs else 1, UNROLL_FACTORS[0]
        return unrolled == usual or max(unrolled, usual) * step <= self._depth(serial)

    def _depth(self, serial: SerialTile) -> int:
        """Length of the innermost reduced index within a `serial` tile."""
        inner = self._roles.shape.inner
        assert inner is not None
        return self._tile_length(inner, serial)

    def _tile_length(self, index: LoopIndex, serial: SerialTile) -> int:
        """Length of an `index` within a serial tile."""
        name, length = serial
        return length if name == index.name else index.size

    def _may_be_copied(self, packed: bool, laid: bool, shared: RowSharing) -> bool:
        """Allows copied rows only if some shared input is not packed."""
        return shared is not RowSharing.COPIED or bool(
            self._shared.keys() - self._laid[packed, laid]
        )

    def _widens(
        self, packed: bool, laid: bool, registers: RegisterCounts, shared: RowSharing, wide: bool
    ) -> bool:
        """Allows widening to f32 only where 16-bit floats are copied or computed by the block, and
        not with AMX, which takes bf16."""
        if not wide:
            return True
        # Widening happens where elements are copied anyway; widening an input in place would need a
        # pass of its own.
        copied = {*self._copied(shared), *self._transposed(packed, laid, registers, shared)}
        copied |= self._panels[packed].keys() if laid else set()
        return not registers[2] and (self._computes_halves or bool(copied & self._half_inputs))

    def _may_transpose(
        self, packed: bool, laid: bool, registers: RegisterCounts, shared: RowSharing
    ) -> bool:
        """Allows transposed rows only if some input can be transposed."""
        return shared is not RowSharing.TRANSPOSED or bool(
            self._transposed(packed, laid, registers, shared)
        )

    def _transposed(
        self, packed: bool, laid: bool, registers: RegisterCounts, shared: RowSharing
    ) -> dict[str, PackedLayout]:
        """Layouts of the inputs to transpose: panels as wide as the register tile has rows, if the
        printer can transpose so many."""
        rows, _, matrix = registers
        # One row is contiguous as it is, and AMX loads rows by itself.
        fits = rows > 1 and not matrix and is_transposable(rows, self._widest // 4)
        if shared is not RowSharing.TRANSPOSED or not fits:
            return {}
        panels = self._laid[packed, laid]
        return {
            name: replace(layout, width=rows)
            for name, layout in self._shared.items()
            if layout is not None and name not in panels
        }

    def _may_keep(self, serial: SerialTile, keeps: bool) -> bool:
        """Allows `keeps` only where a second pass along the serial index reads a tile again."""
        return not keeps or serial[0] in self._footprints[False].kept_along

    def _cuts_codes(self, of: TilingParameters, coded: bool) -> bool:
        """Drops tilings that cut a coded panel: its exceptions are listed per panel."""
        if not coded:
            return True
        tiling, panel = self._chosen_tiling(of), self._panel(of.registers, of.width)
        return not any(
            column.size % panel or tiling.tile(column) % panel for column in self._codable.values()
        )

    def _cuts_vectors(self, of: TilingParameters, packed: bool, laid: bool) -> bool:
        """Drops tilings whose tile along packed columns is not whole vectors."""
        columns = self._packed_columns(packed, laid)
        if not columns:
            return True
        tiling, lanes = self._chosen_tiling(of), self._vector(of.width) // 4
        return not any(
            tiling.tile(column) % lanes for column in columns if tiling.count(column) > 1
        )

    def _changes_order(self, of: TilingParameters, fastest: str | None) -> bool:
        """Allows `fastest` only for an index that is cut, other than the last cut one, which runs
        fastest by default."""
        if fastest is None:
            return True
        tiling = self._chosen_tiling(of)
        cut = [index.name for index in self._roles.blocked if tiling.count(index) > 1]
        return fastest in cut[:-1]

    def _fits_l2(
        self,
        of: TilingParameters,
        packed: bool,
        laid: bool,
        shared: RowSharing,
        keeps: bool,
        wide: bool,
    ) -> bool:
        """Drops schedules whose blocks keep more than L2 holds."""
        copied = (*self._copied(shared), *(self._panels[packed] if laid else ()))
        serial, _ = of.serial
        footprint = self._footprints[wide].bytes(
            self._chosen_tiling(of).tiles, serial, keeps, copied
        )
        return footprint <= self._l2_bytes


def _of_tiling(holds: Callable[..., bool]) -> Callable[..., bool]:
    """Calls `holds` with the first values as `TilingParameters`, and the others behind them."""
    count = len(TilingParameters._fields)
    return lambda *values: holds(TilingParameters(*values[:count]), *values[count:])


def _without_pairs_if_widened(laid: dict[str, PackedLayout], wide: bool) -> dict[str, PackedLayout]:
    """The layouts, without rows in pairs where elements are widened: f32 has no dot instruction
    that would take pairs."""
    return {name: replace(layout, pairs=layout.pairs and not wide) for name, layout in laid.items()}
