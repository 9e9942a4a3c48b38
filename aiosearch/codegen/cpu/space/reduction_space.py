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
        own: IndexRoles,
        machine: CpuMachine,
        laid: Mapping[tuple[bool, bool], Mapping[str, PackedLayout]],
    ) -> None:
        """By whether inputs lie in panels beforehand, and in each block, which do and how."""
        self._own, self._machine = own, machine
        self._shapes = {
            which: unblocked_shape(kernel, own.stage, machine, layouts)
            for which, layouts in laid.items()
        }
        others = [one for one in kernel.stages if one.folded and one != own.stage]
        self._beside = [
            own.shapes[one] for one in others if own.shapes[one].along not in one.folded
        ]

    @cached_property
    def registers(self) -> tuple[RegisterCounts, ...]:
        """That the sums may be in, and none where there may be none."""
        counts = {self._counts(*which) for which in self._shapes}
        some = registers_of(self._own, self._machine) if True in counts else ()
        return (*some, *((NO_REGISTER_TILE,) if False in counts else ()))

    @property
    def parameters(self) -> Sequence[ScheduleParameter]:
        shapes = [one for which in self._shapes if (one := self._shape(*which))]
        offered = dict.fromkeys(lanes for one in shapes for lanes in self._offered(one)[1:])
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

    def found(
        self, packed: bool, laid: bool, lanes: LaneReductionCounts | None
    ) -> LaneReductionCounts | None:
        """The rows and columns; nothing where lanes lie elsewhere."""
        shape = self._shape(packed, laid)
        return None if shape is None else lanes or self._offered(shape)[0]

    def _shape(self, packed: bool, laid: bool) -> RegisterShape | None:
        """Of the main stage, where its lanes lie along what it folds."""
        found = self._shapes[packed, laid]
        return found if found.along in self._own.stage.folded else None

    def _offered(self, shape: RegisterShape) -> list[LaneReductionCounts]:
        """As many as there are, and as registers hold."""
        rows, columns = _size(shape.row), _size(shape.column)
        cut = dict.fromkeys(
            (min(high, rows), min(wide, columns)) for high, wide in _LANE_REDUCTION_COUNTS
        )
        return [one for one in cut if self._fit(one, 1)]

    def _fit(self, lanes: LaneReductionCounts, chains: int) -> bool:
        """Whether registers hold so many sums, and what these are made of."""
        rows, columns = lanes
        return rows * columns * chains + columns + 1 <= self._machine.registers

    def _has_registers(self, packed: bool, laid: bool, registers: RegisterCounts) -> bool:
        """No more than there are, and none where none of them counts."""
        if not self._counts(packed, laid) or registers == NO_REGISTER_TILE:
            return self._counts(packed, laid) == (registers != NO_REGISTER_TILE)
        rows, vectors, matrix = registers
        if self._shape(packed, laid) is None:
            main = self._shapes[packed, laid]
            return matrix or rows <= max(_size(one.row) for one in (main, *self._beside))
        wide = max(_size(one.along) for one in self._beside)
        return vectors <= -(-wide // (self._machine.width // 4))

    def _is_unrolled(self, packed: bool, laid: bool, unrolled: int) -> bool:
        return self._counts(packed, laid) or unrolled == UNROLL_FACTORS[0]

    def _may_fetch(self, packed: bool, laid: bool, ahead: float | None) -> bool:
        """Along the lanes a processor fetches by itself."""
        return ahead is None or self._counts(packed, laid)

    def _may_share(self, packed: bool, laid: bool, shared: RowSharing) -> bool:
        """Rows lie as these lanes take them."""
        return shared is RowSharing.AS_THEY_ARE or self._shape(packed, laid) is None

    def _counts(self, packed: bool, laid: bool) -> bool:
        """Whether there are sums whose lanes lie elsewhere."""
        return bool(self._beside) or self._shape(packed, laid) is None

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
        own, along = self.found(packed, laid, lanes), self._shapes[packed, laid].along
        if not chains:
            return True
        if own is None or along is None or chains == default_chains(own[0] * own[1]):
            return False
        name, length = serial
        folded = length if name == along.name else along.size
        return self._fit(own, chains) and chains * (width or self._machine.width) // 4 <= folded


def _size(one: LoopIndex | None) -> int:
    return 1 if one is None else one.size


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

    far: frozenset[str]
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
            ScheduleConstraint(("packed", "laid", "serial"), self._may_be_shallow),
            ScheduleConstraint(
                PrefetchParameters._fields,
                lambda *chosen: self._is_said(PrefetchParameters(*chosen)),
            ),
            ScheduleConstraint(
                PrefetchParameters._fields,
                lambda *chosen: self._may_go_down(PrefetchParameters(*chosen)),
            ),
            ScheduleConstraint((*PrefetchParameters._fields, "nearest"), self._may_come_near),
        )

    def found(self, *chosen: Any) -> tuple[int, bool]:
        """How far, and whether that is along the rows."""
        of = PrefetchParameters(*chosen)
        distance = self.distance(of)
        return distance, distance > 0 and self.is_across(of)

    def distance(self, of: PrefetchParameters) -> int:
        """In pairs of rows; along these, in blocks of registers, where there are some."""
        if of.registers == NO_REGISTER_TILE:
            return 0
        lies = self._lies(of.packed, of.laid)
        streams = of.packed or lies if of.ahead is None else of.ahead
        found = int(self._usual(of, lies) * streams)
        return min(found, of.panels) if self.cut and self.is_across(of) else found

    def is_across(self, of: PrefetchParameters) -> bool:
        """Whether it is from further along the rows."""
        _, _, matrix = of.registers
        lies = self._lies(of.packed, of.laid) and not of.packed
        return lies and self._goes_down(of.serial) and not matrix and not of.down

    def _usual(self, of: PrefetchParameters, lies: bool) -> int:
        """Of two rows that lie side by side in pairs.

        What is coded is read from two places, and of fewer bytes: twice as far, and further where
        little is computed in between. From further down as they lie, it is a block's next tile.
        """
        rows, vectors, _ = of.registers
        wide = vectors * (of.width or self.widest)
        if self.is_across(of):
            return max(1, _LEAST_ROW_BYTES_PREFETCHED // wide)
        if lies and self._goes_down(of.serial):
            return of.serial[1] // 2
        found = (
            _HARDWARE_STREAM_BYTES // wide // (1 if any(one.pairs for one in self.layouts) else 2)
        )
        return found * (4 if rows == 1 else 2) if of.coded else found

    def _lies(self, packed: bool, laid: bool) -> bool:
        """Whether large inputs are read as they lie."""
        return bool(self.far - self.laid[packed, laid].keys())

    def _may_be_shallow(self, packed: bool, laid: bool, serial: SerialTile) -> bool:
        """Whether rows lie apart, where a block takes so few at a time."""
        return serial[1] != L1_WAYS_TILE or self._lies(packed, laid)

    def _goes_down(self, serial: SerialTile) -> bool:
        """Whether a block goes tile by tile along what its main stage folds."""
        name, _ = serial
        return self.inner is not None and name == self.inner.name

    def _is_said(self, of: PrefetchParameters) -> bool:
        """A distance that is the usual one is not said, and none at all is said once."""
        if of.ahead is None:
            return True
        found, usual = self.distance(of), self.distance(of._replace(ahead=None))
        return found != usual and (found > 0 or of.ahead == 0)

    def _may_go_down(self, of: PrefetchParameters) -> bool:
        """Something is fetched, and would else be from along the rows."""
        other = of._replace(down=False)
        return not of.down or (self.is_across(other) and self.distance(of) > 0)

    def _may_come_near(self, *chosen: Any) -> bool:
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
        own: IndexRoles,
        machine: CpuMachine,
        threads: int,
        layouts: Mapping[str, PackedLayout],
        predictor: KernelCost,
    ) -> None:
        self._kernel, self._own, self._machine, self._threads = kernel, own, machine, threads
        self._widest = machine.width
        self._others = unit_tiles(own)
        self._rooms = {wide: BlockFootprint(kernel, wide=wide) for wide in (False, True)}
        self._most = machine.l2
        self._halves = {one.name for one in kernel.inputs if one.dtype in HALVES}
        self._makes_halves = bool(widenable_tiles(kernel))
        self._layouts = layouts
        self._codable = codable_inputs(kernel, layouts, machine)
        self._panels = {
            packed: packable_inputs(
                kernel,
                [one.name for one in kernel.inputs if not (packed and one.name in layouts)],
                machine,
                again=True,
            )
            for packed in (True, False)
        }
        self._shared = shared_rows(kernel, own, machine)
        self._laid = {
            (packed, laid): {
                **(layouts if packed else {}),
                **(self._panels[packed] if laid else {}),
            }
            for packed, laid in product((False, True), repeat=2)
        }
        self._lanewise = LaneReductionSpace(kernel, own, machine, self._laid)
        self._fetching = PrefetchSpace(
            inputs_exceeding_l2(own.stage, own.shape, kernel.inputs, machine.l2),
            own.shape.inner,
            layouts.values(),
            self._laid,
            machine.width,
            own.along in own.blocked,
        )
        self._fetched = cache(self._fetching.found)
        self._columns = cache(self._side_by_side)
        self._tiled = cache(self._tiling)
        self._laid_out = cache(self._laying)
        self.seconds = predictor.seconds

    @cached_property
    def parameters(self) -> Sequence[ScheduleParameter]:
        own, kernel = self._own, self._kernel
        packed = (True, False) if self._layouts else (False,)
        cut = own.along in own.blocked
        return (
            ScheduleParameter("packed", packed),
            ScheduleParameter("coded", (False, True) if self._codable else (False,)),
            ScheduleParameter("registers", self._lanewise.registers),
            ScheduleParameter("panels", PANEL_COUNTS if cut else PANEL_COUNTS[:1]),
            ScheduleParameter("row", tuple(row_tiles(own))),
            ScheduleParameter("serial", tuple(serial_tiles(own, kernel.outputs))),
            ScheduleParameter("keeps", (False, True) if self._rooms[False].lasting else (False,)),
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
            *self._lanewise.parameters,
            ScheduleParameter(
                "fastest", (None, *(one.name for one in own.blocked[:-1])), fine=True
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
            ScheduleConstraint(("packed", "laid", "registers", "shared"), self._may_be_turned),
            ScheduleConstraint(("packed", "laid", "shared"), self._may_be_copied),
            ScheduleConstraint(("packed", "laid", "registers", "shared", "wide"), self._widens),
            ScheduleConstraint(("serial", "unrolled"), self._turns),
            *self._fetching.constraints,
            *self._lanewise.constraints,
            ScheduleConstraint(("serial", "keeps"), self._lasts),
            ScheduleConstraint((*_TILING_PARAMETERS, "coded"), self._cuts_codes),
            ScheduleConstraint((*_TILING_PARAMETERS, "packed", "laid"), self._cuts_vectors),
            ScheduleConstraint((*_TILING_PARAMETERS, "fastest"), self._is_another_order),
            ScheduleConstraint(
                (*_TILING_PARAMETERS, "packed", "laid", "shared", "keeps", "wide"), self._finds_room
            ),
        )

    def schedule(self, chosen: Mapping[str, Any]) -> Schedule:
        packed, coded, registers = chosen["packed"], chosen["coded"], chosen["registers"]
        wide = chosen["wide"]
        rows, vectors, matrix = registers
        panel = self._panel(registers, chosen["width"])
        ahead, across = self._fetched(*(chosen[one] for one in PrefetchParameters._fields))
        return Schedule(
            self._tiled(*(chosen[one] for one in _TILING_PARAMETERS)).tiles,
            chosen["serial"][0],
            RegisterRequest(
                rows,
                vectors,
                chosen["unrolled"],
                ahead,
                matrix,
                chosen["nearest"] or across,
                across,
                self._lanewise.found(packed, chosen["laid"], chosen["lanes"]),
                chosen["chains"],
            ),
            self._laid_out(packed, coded, panel),
            self._copied(chosen["shared"]),
            _without_pairs_if_widened(
                self._turned(packed, chosen["laid"], registers, chosen["shared"]), wide
            ),
            _without_pairs_if_widened(
                self._laid_out(packed, None, panel) if chosen["laid"] else {}, wide
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

    def _laying(self, packed: bool, coded: bool | None, panel: int) -> dict[str, PackedLayout]:
        """What lies in panels: beforehand, coded or not, or in a block where that is not asked."""
        if coded is None:
            return {name: replace(one, width=panel) for name, one in self._panels[packed].items()}
        codes = self._codable if coded else {}
        return {
            name: replace(one, width=panel, coded=name in codes)
            for name, one in (self._layouts if packed else {}).items()
        }

    def _copied(self, shared: RowSharing) -> tuple[str, ...]:
        return tuple(self._shared) if shared is RowSharing.COPIED else ()

    def _tiling(
        self, registers: RegisterCounts, width: int, panels: int, row: int, serial: SerialTile
    ) -> Schedule:
        """How indices are cut, and nothing else."""
        own, tiles = self._own, dict(self._others)
        if own.along in own.blocked and own.along is not None:
            column = self._column(panels, self._panel(registers, width))
            assert column is not None, "there are not so many panels"
            tiles[own.along.name] = column
        if own.row in own.blocked and own.row is not None:
            tiles[own.row.name] = row
        name, length = serial
        if name is not None:
            tiles[name] = length
        return Schedule(tiles)

    def _side_by_side(self, packed: bool, laid: bool) -> list[LoopIndex]:
        """Along which panels lie side by side."""
        layouts = self._laid[packed, laid]
        loads = [load for stage in self._kernel.stages for load in stage.loads]
        read = [(load, layouts[load.buffer.name]) for load in loads if load.buffer.name in layouts]
        columns = [single_index(load.at[layout.column]) for load, layout in read]
        return [one for one in columns if one is not None]

    def _has_columns(self, registers: RegisterCounts, width: int, panels: int) -> bool:
        """Whether fewer panels are not as many."""
        return self._column(panels, self._panel(registers, width)) is not None

    def _column(self, count: int, panel: int) -> int | None:
        """The tile along the lanes; nothing where fewer panels are as many."""
        along = self._own.along
        assert along is not None
        if along not in self._own.blocked:
            return along.size
        most = -(-along.size // self._threads)
        whole = -(-most // panel)
        return panel * min(count, whole) if count == 1 or count // 2 < whole else None

    def _has_vectors(self, registers: RegisterCounts, width: int, serial: SerialTile) -> bool:
        """Whether there are so many along the lanes of any fold."""
        _, vectors, matrix = registers
        if matrix or self._own.along in self._own.stage.folded:
            return True
        most = max(self._extent(one, serial) for one in self._lanes)
        return vectors <= max(1, -(-most // (self._vector(width) // 4)))

    @cached_property
    def _lanes(self) -> list[LoopIndex]:
        """Along which those of folds lie, but for those that lie along what is folded."""
        shapes = self._own.shapes.items()
        folds = ((stage, own.along) for stage, own in shapes if stage.folded)
        return [one for stage, one in folds if one is not None and one not in stage.folded]

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
        return not laid or (self._own.row is not None and row >= (1 if matrix else 3) * rows)

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
        inner, stage = self._own.shape.inner, self._own.stage
        read = {load.buffer.name for load in stage.loads}
        moving = self._laid[packed, laid].keys() & read or interleavable_inputs(
            stage, self._own.shape
        )
        return (
            self._depth(serial) >= AMX_DEPTH
            and bool(moving)
            and is_contiguous_along(stage, inner, moving)
        )

    def _turns(self, serial: SerialTile, unrolled: int) -> bool:
        """Whether there are so many steps: of a pair of rows, where some lie or are taken so."""
        pairs = any(one.pairs for laid in self._laid.values() for one in laid.values())
        pairs |= self._machine.bf16_dot and is_bf16_product(self._own.stage)
        step, usual = 2 if pairs else 1, UNROLL_FACTORS[0]
        return unrolled == usual or max(unrolled, usual) * step <= self._depth(serial)

    def _depth(self, serial: SerialTile) -> int:
        """How much of what the main stage folds innermost a block folds at a time."""
        inner = self._own.shape.inner
        assert inner is not None
        return self._extent(inner, serial)

    def _extent(self, one: LoopIndex, serial: SerialTile) -> int:
        """How much of an index there is at a time, at most."""
        name, length = serial
        return length if name == one.name else one.size

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
        copied = {*self._copied(shared), *self._turned(packed, laid, registers, shared)}
        copied |= self._panels[packed].keys() if laid else set()
        return not registers[2] and (self._makes_halves or bool(copied & self._halves))

    def _may_be_turned(
        self, packed: bool, laid: bool, registers: RegisterCounts, shared: RowSharing
    ) -> bool:
        return shared is not RowSharing.TURNED or bool(
            self._turned(packed, laid, registers, shared)
        )

    def _turned(
        self, packed: bool, laid: bool, registers: RegisterCounts, shared: RowSharing
    ) -> dict[str, PackedLayout]:
        """As many rows side by side as are in registers, where so many can be turned."""
        rows, _, matrix = registers
        fits = rows > 1 and not matrix and is_transposable(rows, self._widest // 4)
        if shared is not RowSharing.TURNED or not fits:
            return {}
        panels = self._laid[packed, laid]
        return {
            name: replace(one, width=rows)
            for name, one in self._shared.items()
            if one is not None and name not in panels
        }

    def _lasts(self, serial: SerialTile, keeps: bool) -> bool:
        """Whether something is needed again along the index."""
        return not keeps or serial[0] in self._rooms[False].lasting

    def _cuts_codes(self, *chosen: Any) -> bool:
        """What is coded is cut into whole panels."""
        *tiled, coded = chosen
        if not coded:
            return True
        found, panel = self._tiled(*tiled), self._panel(*tiled[:2])
        return not any(
            one.size % panel or found.tile(one) % panel for one in self._codable.values()
        )

    def _cuts_vectors(self, *chosen: Any) -> bool:
        """What lies in panels is cut into whole vectors."""
        *tiled, packed, laid = chosen
        columns = self._columns(packed, laid)
        if not columns:
            return True
        found, lanes = self._tiled(*tiled), self._vector(tiled[1]) // 4
        return not any(found.tile(one) % lanes for one in columns if found.count(one) > 1)

    def _is_another_order(self, *chosen: Any) -> bool:
        """Or none at all."""
        *tiled, fastest = chosen
        if fastest is None:
            return True
        found = self._tiled(*tiled)
        cut = [one.name for one in self._own.blocked if found.count(one) > 1]
        return fastest in cut[:-1]

    def _finds_room(self, *chosen: Any) -> bool:
        """The second cache holds the tiles that a block keeps."""
        *tiled, packed, laid, shared, keeps, wide = chosen
        copied = (*self._copied(shared), *(self._panels[packed] if laid else ()))
        serial, _ = tiled[-1]
        found = self._rooms[wide].bytes(self._tiled(*tiled).tiles, serial, keeps, copied)
        return found <= self._most


def _without_pairs_if_widened(laid: dict[str, PackedLayout], wide: bool) -> dict[str, PackedLayout]:
    """What is widened lies in no pairs."""
    return {name: replace(one, pairs=one.pairs and not wide) for name, one in laid.items()}
