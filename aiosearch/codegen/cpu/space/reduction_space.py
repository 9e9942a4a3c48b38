"""The schedule space of kernels that reduce: register tiles, cache tiles, packing, prefetch.

Whether they do depends on what lies in panels. The rows and vectors of other sums, and how far
these are unrolled, say nothing then, unless another stage has some.

How far ahead a folding kernel fetches, and where: down the rows of what it reads, or along.

What is free where a kernel's main stage folds: registers, tiles, and how its inputs lie.

The registers hold rows times vectors of sums; a panel of packed columns is as wide as those
vectors; a tile along the lanes is whole panels; the tiles that a block keeps fit the second cache;
there are blocks enough for all threads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from typing import Any, NamedTuple

from ....tensor.types import HALVES
from ...ir import LoopIndex, TileKernel, single_index
from ...native.machine import CpuMachine
from ...schedule.space import ScheduleConstraint, ScheduleParameter
from ..cost.kernel_cost import KernelCost
from ..emit.panels import is_transposable
from ..index_roles import (
    IndexRoles,
    codable_inputs,
    inputs_exceeding_l2,
    interleavable_inputs,
    is_contiguous_along,
    packable_inputs,
    unblocked_shape,
)
from ..packing import PackedLayout
from ..prepare.precision import is_bf16_product, may_widen, widenable_tiles
from ..reduce.amx_unit import AMX_DEPTH
from ..register_layout import RegisterRequest, RegisterShape, default_chains
from ..schedule import Schedule
from .block_footprint import BlockFootprint
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
    registers_of,
    row_tiles,
    serial_tiles,
    shared_rows,
    unit_tiles,
    vector_width_parameter,
)

_LANE_REDUCTION_COUNTS = (
    (4, 4),
    (8, 1),
    (8, 2),
    (4, 2),
    (2, 4),
    (2, 2),
    (4, 1),
    (1, 4),
    (2, 1),
    (1, 2),
    (1, 1),
)
"""Rows and columns of sums, the usual ones first."""
_CHAIN_COUNTS = (1, 2, 4, 8)
"""Of each of these."""


class LaneReductionSpace:
    """Of one kernel on one machine."""

    def __init__(
        self,
        kernel: TileKernel,
        roles: IndexRoles,
        machine: CpuMachine,
        laid: Mapping[tuple[bool, bool], Mapping[str, PackedLayout]],
    ) -> None:
        """By whether inputs lie in panels beforehand, and in each block, which do and how."""
        self._roles, self._machine = roles, machine
        self._shapes = {
            which: unblocked_shape(kernel, roles.stage, machine, layouts)
            for which, layouts in laid.items()
        }
        secondary = [stage for stage in kernel.stages if stage.folded and stage != roles.stage]
        self._secondary_shapes = [
            roles.shapes[stage]
            for stage in secondary
            if roles.shapes[stage].along not in stage.folded
        ]

    @cached_property
    def registers(self) -> tuple[RegisterCounts, ...]:
        """That the sums may be in, and none where there may be none."""
        counts = {self._has_register_tiles(*which) for which in self._shapes}
        tiles = registers_of(self._roles, self._machine) if True in counts else ()
        return (*tiles, *((NO_REGISTER_TILE,) if False in counts else ()))

    @property
    def parameters(self) -> Sequence[ScheduleParameter]:
        shapes = [shape for which in self._shapes if (shape := self._shape(*which))]
        offered = dict.fromkeys(lanes for shape in shapes for lanes in self._offered(shape)[1:])
        chains = _CHAIN_COUNTS if shapes else ()
        return (
            ScheduleParameter("lanes", (None, *offered), fine=True),
            ScheduleParameter("chains", (0, *chains), fine=True),
        )

    @cached_property
    def constraints(self) -> Sequence[ScheduleConstraint]:
        return (
            ScheduleConstraint(("packed", "laid", "registers"), self._has_registers),
            ScheduleConstraint(("packed", "laid", "unrolled"), self._is_unrolled),
            ScheduleConstraint(("packed", "laid", "ahead"), self._may_fetch),
            ScheduleConstraint(("packed", "laid", "shared"), self._may_share),
            ScheduleConstraint(("packed", "laid", "lanes"), self._has_lanes),
            ScheduleConstraint(
                ("packed", "laid", "serial", "width", "lanes", "chains"), self._has_chains
            ),
        )

    def sum_tile(
        self, packed: bool, laid: bool, lanes: LaneReductionCounts | None
    ) -> LaneReductionCounts | None:
        """The rows and columns; nothing where lanes lie elsewhere."""
        shape = self._shape(packed, laid)
        return None if shape is None else lanes or self._offered(shape)[0]

    def _shape(self, packed: bool, laid: bool) -> RegisterShape | None:
        """Of the main stage, where its lanes lie along what it folds."""
        shape = self._shapes[packed, laid]
        return shape if shape.along in self._roles.stage.folded else None

    def _offered(self, shape: RegisterShape) -> list[LaneReductionCounts]:
        """As many as there are, and as registers hold."""
        rows, columns = _size(shape.row), _size(shape.column)
        cut = dict.fromkeys(
            (min(high, rows), min(wide, columns)) for high, wide in _LANE_REDUCTION_COUNTS
        )
        return [counts for counts in cut if self._fits_registers(counts, 1)]

    def _fits_registers(self, lanes: LaneReductionCounts, chains: int) -> bool:
        """Whether registers hold so many sums, and what these are made of."""
        rows, columns = lanes
        return rows * columns * chains + columns + 1 <= self._machine.registers

    def _has_registers(self, packed: bool, laid: bool, registers: RegisterCounts) -> bool:
        """No more than there are, and none where none of them counts."""
        if not self._has_register_tiles(packed, laid) or registers == NO_REGISTER_TILE:
            return self._has_register_tiles(packed, laid) == (registers != NO_REGISTER_TILE)
        rows, vectors, matrix = registers
        if self._shape(packed, laid) is None:
            main = self._shapes[packed, laid]
            return matrix or rows <= max(
                _size(shape.row) for shape in (main, *self._secondary_shapes)
            )
        wide = max(_size(shape.along) for shape in self._secondary_shapes)
        return vectors <= -(-wide // (self._machine.width // 4))

    def _is_unrolled(self, packed: bool, laid: bool, unrolled: int) -> bool:
        return self._has_register_tiles(packed, laid) or unrolled == UNROLL_FACTORS[0]

    def _may_fetch(self, packed: bool, laid: bool, ahead: float | None) -> bool:
        """Along the lanes a processor fetches by itself."""
        return ahead is None or self._has_register_tiles(packed, laid)

    def _may_share(self, packed: bool, laid: bool, shared: RowSharing) -> bool:
        """Rows lie as these lanes take them."""
        return shared is RowSharing.AS_THEY_ARE or self._shape(packed, laid) is None

    def _has_register_tiles(self, packed: bool, laid: bool) -> bool:
        """Whether there are sums whose lanes lie elsewhere."""
        return bool(self._secondary_shapes) or self._shape(packed, laid) is None

    def _has_lanes(self, packed: bool, laid: bool, lanes: LaneReductionCounts | None) -> bool:
        """The usual ones are not said."""
        shape = self._shape(packed, laid)
        return lanes is None or (shape is not None and lanes in self._offered(shape)[1:])

    def _has_chains(
        self,
        packed: bool,
        laid: bool,
        serial: SerialTile,
        width: int,
        lanes: LaneReductionCounts | None,
        chains: int,
    ) -> bool:
        """Nor is the usual number; others have to fit, and to have something to fold."""
        sums, along = self.sum_tile(packed, laid, lanes), self._shapes[packed, laid].along
        if not chains:
            return True
        if sums is None or along is None or chains == default_chains(sums[0] * sums[1]):
            return False
        name, length = serial
        folded = length if name == along.name else along.size
        return (
            self._fits_registers(sums, chains)
            and chains * (width or self._machine.width) // 4 <= folded
        )


def _size(index: LoopIndex | None) -> int:
    return 1 if index is None else index.size


_HARDWARE_STREAM_BYTES = 4096
"""Bytes by which is fetched ahead what comes from memory, where nothing is said: what is laid out
beforehand, and large inputs as they lie. Others are not."""
_LEAST_ROW_BYTES_PREFETCHED = 512
"""The same along each of the rows, where a block goes along a few of them before it goes down; half
of that where these are of bf16."""


class PrefetchParameters(NamedTuple):
    """The values on which it depends, by their parameters."""

    packed: bool
    coded: bool
    laid: bool
    registers: RegisterCounts
    width: int
    panels: int
    serial: SerialTile
    down: bool
    """Whether it is from further down, where it would be from along the rows."""
    ahead: float | None
    """Times what is usual."""


@dataclass(frozen=True)
class PrefetchSpace:
    """Of one kernel on one machine."""

    exceeding_l2: frozenset[str]
    """The inputs down whose rows the main stage goes, and that no cache holds."""
    inner: LoopIndex | None
    """The index down their rows."""
    layouts: Collection[PackedLayout]
    """Of what may lie in panels beforehand."""
    laid: Mapping[tuple[bool, bool], Mapping[str, PackedLayout]]
    """What lies in panels at all, by whether some do beforehand, and some in each block."""
    widest: int
    """Bytes of the widest vectors."""
    cut: bool
    """Whether a block has so many panels along its lanes, and not all of them."""

    @property
    def constraints(self) -> Sequence[ScheduleConstraint]:
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
            ScheduleConstraint((*PrefetchParameters._fields, "nearest"), self._may_prefetch_to_l1),
        )

    def distance_and_direction(self, *chosen: Any) -> tuple[int, bool]:
        """How far, and whether that is along the rows."""
        of = PrefetchParameters(*chosen)
        distance = self.distance(of)
        return distance, distance > 0 and self.is_across(of)

    def distance(self, of: PrefetchParameters) -> int:
        """In pairs of rows; along these, in blocks of registers, where there are some."""
        if of.registers == NO_REGISTER_TILE:
            return 0
        lies = self._reads_unpacked(of.packed, of.laid)
        streams = of.packed or lies if of.ahead is None else of.ahead
        pairs_ahead = int(self._default_pairs(of, lies) * streams)
        return min(pairs_ahead, of.panels) if self.cut and self.is_across(of) else pairs_ahead

    def is_across(self, of: PrefetchParameters) -> bool:
        """Whether it is from further along the rows."""
        _, _, matrix = of.registers
        lies = self._reads_unpacked(of.packed, of.laid) and not of.packed
        return lies and self._steps_down_rows(of.serial) and not matrix and not of.down

    def _default_pairs(self, of: PrefetchParameters, lies: bool) -> int:
        """Of two rows that lie side by side in pairs.

        What is coded is read from two places, and of fewer bytes: twice as far, and further where
        little is computed in between. From further down as they lie, it is a block's next tile.
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
        return stream_pairs * (4 if rows == 1 else 2) if of.coded else stream_pairs

    def _reads_unpacked(self, packed: bool, laid: bool) -> bool:
        """Whether large inputs are read as they lie."""
        return bool(self.exceeding_l2 - self.laid[packed, laid].keys())

    def _may_be_few_rows(self, packed: bool, laid: bool, serial: SerialTile) -> bool:
        """Whether rows lie apart, where a block takes so few at a time."""
        return serial[1] != L1_WAYS_TILE or self._reads_unpacked(packed, laid)

    def _steps_down_rows(self, serial: SerialTile) -> bool:
        """Whether a block goes tile by tile along what its main stage folds."""
        name, _ = serial
        return self.inner is not None and name == self.inner.name

    def _is_distinct(self, of: PrefetchParameters) -> bool:
        """A distance that is the usual one is not said, and none at all is said once."""
        if of.ahead is None:
            return True
        distance, usual = self.distance(of), self.distance(of._replace(ahead=None))
        return distance != usual and (distance > 0 or of.ahead == 0)

    def _may_prefetch_down(self, of: PrefetchParameters) -> bool:
        """Something is fetched, and would else be from along the rows."""
        along_rows = of._replace(down=False)
        return not of.down or (self.is_across(along_rows) and self.distance(of) > 0)

    def _may_prefetch_to_l1(self, *chosen: Any) -> bool:
        """Something is fetched, and from further down: what is along the rows comes near anyhow."""
        *fetched, nearest = chosen
        of = PrefetchParameters(*fetched)
        return not nearest or (self.distance(of) > 0 and not self.is_across(of))


pass

pass


_TILING_PARAMETERS = ("registers", "width", "panels", "row", "serial")
"""On these, in this order, depends how indices are cut."""


class ReductionSpace:
    """The schedules of a kernel whose main stage folds."""

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
        self._footprints = {wide: BlockFootprint(kernel, wide=wide) for wide in (False, True)}
        self._l2_bytes = machine.l2
        self._half_inputs = {buffer.name for buffer in kernel.inputs if buffer.dtype in HALVES}
        self._computes_halves = bool(widenable_tiles(kernel))
        self._layouts = layouts
        self._codable = codable_inputs(kernel, layouts, machine)
        self._panels = {
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
        self._chosen_prefetch = cache(self._prefetching.distance_and_direction)
        self._packed_columns = cache(self._list_packed_columns)
        self._chosen_tiling = cache(self._choose_tiling)
        self._chosen_layouts = cache(self._choose_layouts)
        self.seconds = predictor.seconds

    @cached_property
    def parameters(self) -> Sequence[ScheduleParameter]:
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
        return (
            # The first, as all that ask how indices are cut rely on it.
            ScheduleConstraint(("registers", "width", "panels"), self._has_columns),
            ScheduleConstraint(("registers", "width", "serial"), self._has_vectors),
            ScheduleConstraint(("registers", "row"), self._has_rows),
            ScheduleConstraint(("packed", "laid"), self._has_panels),
            ScheduleConstraint(("registers", "row", "laid"), self._reads_again),
            ScheduleConstraint(("coded", "registers", "width"), self._is_wide),
            ScheduleConstraint(("packed", "coded", "laid", "registers"), self._may_be_coded),
            ScheduleConstraint(("packed", "laid", "registers", "serial"), self._suits_matrices),
            ScheduleConstraint(("packed", "laid", "registers", "shared"), self._may_transpose),
            ScheduleConstraint(("packed", "laid", "shared"), self._may_be_copied),
            ScheduleConstraint(("packed", "laid", "registers", "shared", "wide"), self._widens),
            ScheduleConstraint(("serial", "unrolled"), self._may_unroll),
            *self._prefetching.constraints,
            *self._lane_reductions.constraints,
            ScheduleConstraint(("serial", "keeps"), self._may_keep),
            ScheduleConstraint((*_TILING_PARAMETERS, "coded"), self._cuts_codes),
            ScheduleConstraint((*_TILING_PARAMETERS, "packed", "laid"), self._cuts_vectors),
            ScheduleConstraint((*_TILING_PARAMETERS, "fastest"), self._changes_order),
            ScheduleConstraint(
                (*_TILING_PARAMETERS, "packed", "laid", "shared", "keeps", "wide"), self._fits_l2
            ),
        )

    def schedule(self, chosen: Mapping[str, Any]) -> Schedule:
        packed, coded, registers = chosen["packed"], chosen["coded"], chosen["registers"]
        wide = chosen["wide"]
        rows, vectors, matrix = registers
        panel = self._panel(registers, chosen["width"])
        ahead, across = self._chosen_prefetch(
            *(chosen[name] for name in PrefetchParameters._fields)
        )
        return Schedule(
            self._chosen_tiling(*(chosen[name] for name in _TILING_PARAMETERS)).tiles,
            chosen["serial"][0],
            RegisterRequest(
                rows,
                vectors,
                chosen["unrolled"],
                ahead,
                matrix,
                chosen["nearest"] or across,
                across,
                self._lane_reductions.sum_tile(packed, chosen["laid"], chosen["lanes"]),
                chosen["chains"],
            ),
            self._chosen_layouts(packed, coded, panel),
            self._copied(chosen["shared"]),
            _without_pairs_if_widened(
                self._transposed(packed, chosen["laid"], registers, chosen["shared"]), wide
            ),
            _without_pairs_if_widened(
                self._chosen_layouts(packed, None, panel) if chosen["laid"] else {}, wide
            ),
            chosen["fastest"],
            chosen["keeps"],
            chosen["width"],
            wide,
        )

    def _panel(self, registers: RegisterCounts, width: int) -> int:
        """The columns that a panel is wide, or would be."""
        return (
            LEAST_PANEL_COLUMNS
            if registers == NO_REGISTER_TILE
            else self._vector(width) // 4 * registers[1]
        )

    def _vector(self, width: int) -> int:
        return width or self._widest

    def _choose_layouts(
        self, packed: bool, coded: bool | None, panel: int
    ) -> dict[str, PackedLayout]:
        """What lies in panels: beforehand, coded or not, or in a block where that is not asked."""
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
        return tuple(self._shared) if shared is RowSharing.COPIED else ()

    def _choose_tiling(
        self, registers: RegisterCounts, width: int, panels: int, row: int, serial: SerialTile
    ) -> Schedule:
        """How indices are cut, and nothing else."""
        roles, tiles = self._roles, dict(self._unit_tiles)
        if roles.along in roles.blocked and roles.along is not None:
            column = self._column(panels, self._panel(registers, width))
            assert column is not None, "there are not so many panels"
            tiles[roles.along.name] = column
        if roles.row in roles.blocked and roles.row is not None:
            tiles[roles.row.name] = row
        name, length = serial
        if name is not None:
            tiles[name] = length
        return Schedule(tiles)

    def _list_packed_columns(self, packed: bool, laid: bool) -> list[LoopIndex]:
        """Along which panels lie side by side."""
        layouts = self._laid[packed, laid]
        loads = [load for stage in self._kernel.stages for load in stage.loads]
        read = [(load, layouts[load.buffer.name]) for load in loads if load.buffer.name in layouts]
        columns = [single_index(load.at[layout.column]) for load, layout in read]
        return [column for column in columns if column is not None]

    def _has_columns(self, registers: RegisterCounts, width: int, panels: int) -> bool:
        """Whether fewer panels are not as many."""
        return self._column(panels, self._panel(registers, width)) is not None

    def _column(self, count: int, panel: int) -> int | None:
        """The tile along the lanes; nothing where fewer panels are as many."""
        along = self._roles.along
        assert along is not None
        if along not in self._roles.blocked:
            return along.size
        most = -(-along.size // self._threads)
        whole = -(-most // panel)
        return panel * min(count, whole) if count == 1 or count // 2 < whole else None

    def _has_vectors(self, registers: RegisterCounts, width: int, serial: SerialTile) -> bool:
        """Whether there are so many along the lanes of any fold."""
        _, vectors, matrix = registers
        if matrix or self._roles.along in self._roles.stage.folded:
            return True
        most = max(self._tile_length(index, serial) for index in self._lanes)
        return vectors <= max(1, -(-most // (self._vector(width) // 4)))

    @cached_property
    def _lanes(self) -> list[LoopIndex]:
        """Along which those of folds lie, but for those that lie along what is folded."""
        shapes = self._roles.shapes.items()
        folds = ((stage, shape.along) for stage, shape in shapes if stage.folded)
        return [index for stage, index in folds if index is not None and index not in stage.folded]

    def _has_rows(self, registers: RegisterCounts, row: int) -> bool:
        """Whether a block's tile has so many."""
        rows, _, _ = registers
        return rows <= row

    def _has_panels(self, packed: bool, laid: bool) -> bool:
        """Whether there is something for a block to lay out."""
        return not laid or bool(self._panels[packed])

    def _reads_again(self, registers: RegisterCounts, row: int, laid: bool) -> bool:
        """Inputs are laid out in each block where several blocks of rows read the tile."""
        rows, _, matrix = registers
        return not laid or (self._roles.row is not None and row >= (1 if matrix else 3) * rows)

    def _is_wide(self, coded: bool, registers: RegisterCounts, width: int) -> bool:
        """What is coded, and a matrix unit, have the widest vectors."""
        return self._vector(width) == self._widest or not (coded or registers[2])

    def _may_be_coded(
        self, packed: bool, coded: bool, laid: bool, registers: RegisterCounts
    ) -> bool:
        """Vectors by pairs, and nothing but what was laid out beforehand."""
        return not coded or (packed and not laid and registers[1] % 2 == 0)

    def _suits_matrices(
        self, packed: bool, laid: bool, registers: RegisterCounts, serial: SerialTile
    ) -> bool:
        """Whether the main stage reads enough rows, in panels or woven, and a factor in rows."""
        if not registers[2]:
            return True
        inner, stage = self._roles.shape.inner, self._roles.stage
        read = {load.buffer.name for load in stage.loads}
        moving = self._laid[packed, laid].keys() & read or interleavable_inputs(
            stage, self._roles.shape
        )
        return (
            self._depth(serial) >= AMX_DEPTH
            and bool(moving)
            and is_contiguous_along(stage, inner, moving)
        )

    def _may_unroll(self, serial: SerialTile, unrolled: int) -> bool:
        """Whether there are so many steps: of a pair of rows, where some lie or are taken so."""
        pairs = any(layout.pairs for laid in self._laid.values() for layout in laid.values())
        pairs |= self._machine.bf16_dot and is_bf16_product(self._roles.stage)
        step, usual = 2 if pairs else 1, UNROLL_FACTORS[0]
        return unrolled == usual or max(unrolled, usual) * step <= self._depth(serial)

    def _depth(self, serial: SerialTile) -> int:
        """How much of what the main stage folds innermost a block folds at a time."""
        inner = self._roles.shape.inner
        assert inner is not None
        return self._tile_length(inner, serial)

    def _tile_length(self, index: LoopIndex, serial: SerialTile) -> int:
        """How much of an index there is at a time, at most."""
        name, length = serial
        return length if name == index.name else index.size

    def _may_be_copied(self, packed: bool, laid: bool, shared: RowSharing) -> bool:
        """Whether there is something that does not lie in panels."""
        return shared is not RowSharing.COPIED or bool(
            self._shared.keys() - self._laid[packed, laid]
        )

    def _widens(
        self, packed: bool, laid: bool, registers: RegisterCounts, shared: RowSharing, wide: bool
    ) -> bool:
        """Whether there are halves to widen, and no matrix unit that takes them as they are."""
        if not wide:
            return True
        copied = {*self._copied(shared), *self._transposed(packed, laid, registers, shared)}
        copied |= self._panels[packed].keys() if laid else set()
        return not registers[2] and (self._computes_halves or bool(copied & self._half_inputs))

    def _may_transpose(
        self, packed: bool, laid: bool, registers: RegisterCounts, shared: RowSharing
    ) -> bool:
        return shared is not RowSharing.TRANSPOSED or bool(
            self._transposed(packed, laid, registers, shared)
        )

    def _transposed(
        self, packed: bool, laid: bool, registers: RegisterCounts, shared: RowSharing
    ) -> dict[str, PackedLayout]:
        """As many rows side by side as are in registers, where so many can be turned."""
        rows, _, matrix = registers
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
        """Whether something is needed again along the index."""
        return not keeps or serial[0] in self._footprints[False].kept_along

    def _cuts_codes(self, *chosen: Any) -> bool:
        """What is coded is cut into whole panels."""
        *tiled, coded = chosen
        if not coded:
            return True
        tiling, panel = self._chosen_tiling(*tiled), self._panel(*tiled[:2])
        return not any(
            column.size % panel or tiling.tile(column) % panel for column in self._codable.values()
        )

    def _cuts_vectors(self, *chosen: Any) -> bool:
        """What lies in panels is cut into whole vectors."""
        *tiled, packed, laid = chosen
        columns = self._packed_columns(packed, laid)
        if not columns:
            return True
        tiling, lanes = self._chosen_tiling(*tiled), self._vector(tiled[1]) // 4
        return not any(
            tiling.tile(column) % lanes for column in columns if tiling.count(column) > 1
        )

    def _changes_order(self, *chosen: Any) -> bool:
        """Or none at all."""
        *tiled, fastest = chosen
        if fastest is None:
            return True
        tiling = self._chosen_tiling(*tiled)
        cut = [index.name for index in self._roles.blocked if tiling.count(index) > 1]
        return fastest in cut[:-1]

    def _fits_l2(self, *chosen: Any) -> bool:
        """The second cache holds the tiles that a block keeps."""
        *tiled, packed, laid, shared, keeps, wide = chosen
        copied = (*self._copied(shared), *(self._panels[packed] if laid else ()))
        serial, _ = tiled[-1]
        footprint = self._footprints[wide].bytes(
            self._chosen_tiling(*tiled).tiles, serial, keeps, copied
        )
        return footprint <= self._l2_bytes


def _without_pairs_if_widened(laid: dict[str, PackedLayout], wide: bool) -> dict[str, PackedLayout]:
    """What is widened lies in no pairs."""
    return {name: replace(layout, pairs=layout.pairs and not wide) for name, layout in laid.items()}
