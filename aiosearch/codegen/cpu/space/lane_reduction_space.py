"""The parameters of reductions that are vectorised over the reduced index: `lanes` and `chains`.

Example: `out[i, j] = sum over k of a[i, k] * b[j, k]` in f32, where neither operand can be packed.
Each accumulator holds 16 partial sums. With lanes=(4, 4), 4 rows of a and 4 rows of b are loaded
per step for 16 accumulators, enough to hide FMA latency with one chain; with lanes=(1, 2) there are
2 accumulators, and chains=4 makes 8 of them, used by turns. A point with lanes=(8, 2) and chains=2
needs 8 * 2 * 2 + 2 + 1 registers, 35, and is dropped where there are 32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from ...ir import LoopIndex, TileKernel
from ...native.machine import CpuMachine
from ...schedule.space import ScheduleConstraint, ScheduleParameter
from ..index_roles import IndexRoles, unblocked_shape
from ..packing import PackedLayout
from ..register_layout import RegisterShape, default_chains
from .parameter_values import (
    NO_REGISTER_TILE,
    UNROLL_FACTORS,
    LaneReductionCounts,
    RegisterCounts,
    RowSharing,
    SerialTile,
    registers_of,
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
"""Rows and columns of accumulators where a reduction is vectorised over the reduced index, the
default first; fitted to `benchmarks/kernels.py`."""
_CHAIN_COUNTS = (1, 2, 4, 8)
"""Independent accumulators for each of these sums, to hide FMA latency."""


class LaneReductionSpace:
    """Parameters of reductions that are vectorised over the reduced index, for one kernel on one
    machine.

    Whether the main stage is such a reduction depends on what is packed. `RegisterCounts` and
    unroll factors then concern only the other reductions, and have one value where there are none.
    """

    def __init__(
        self,
        kernel: TileKernel,
        roles: IndexRoles,
        machine: CpuMachine,
        laid: Mapping[tuple[bool, bool], Mapping[str, PackedLayout]],
    ) -> None:
        """`laid` has the layouts of packed inputs by whether inputs are packed beforehand and by
        whether each block packs some."""
        self._roles, self._machine = roles, machine
        self._shapes = {
            which: unblocked_shape(kernel, roles.stage, machine, layouts)
            for which, layouts in laid.items()
        }
        # A kernel such as a norm before a product has two reductions, and the second may be
        # vectorised over another index than the main one.
        secondary = [stage for stage in kernel.stages if stage.folded and stage != roles.stage]
        self._secondary_shapes = [
            roles.shapes[stage]
            for stage in secondary
            if roles.shapes[stage].along not in stage.folded
        ]

    @cached_property
    def registers(self) -> tuple[RegisterCounts, ...]:
        """The register tiles on offer, with `NO_REGISTER_TILE` last where some choice of packing
        has no use for any."""
        counts = {self._has_register_tiles(*which) for which in self._shapes}
        tiles = registers_of(self._roles, self._machine) if True in counts else ()
        return (*tiles, *((NO_REGISTER_TILE,) if False in counts else ()))

    @property
    def parameters(self) -> Sequence[ScheduleParameter]:
        """The parameters `lanes` (rows and columns of accumulators) and `chains`, with `None` and 0
        for the defaults."""
        shapes = [shape for which in self._shapes if (shape := self._shape(*which))]
        offered = dict.fromkeys(lanes for shape in shapes for lanes in self._offered(shape)[1:])
        chains = _CHAIN_COUNTS if shapes else ()
        return (
            ScheduleParameter("lanes", (None, *offered), fine=True),
            ScheduleParameter("chains", (0, *chains), fine=True),
        )

    @cached_property
    def constraints(self) -> Sequence[ScheduleConstraint]:
        """Constraints that make register tiles and lane counts exclude each other."""
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
        """Rows and columns of accumulators; `None` where the main stage is vectorised over another
        index."""
        shape = self._shape(packed, laid)
        return None if shape is None else lanes or self._offered(shape)[0]

    def _shape(self, packed: bool, laid: bool) -> RegisterShape | None:
        """The register layout of the main stage, if it is vectorised over the reduced index; else
        `None`."""
        shape = self._shapes[packed, laid]
        return shape if shape.along in self._roles.stage.folded else None

    def _offered(self, shape: RegisterShape) -> list[LaneReductionCounts]:
        """Counts of rows and columns that the indices have and the registers hold, the default
        first."""
        rows, columns = _size(shape.row), _size(shape.column)
        cut = dict.fromkeys(
            (min(high, rows), min(wide, columns)) for high, wide in _LANE_REDUCTION_COUNTS
        )
        return [counts for counts in cut if self._fits_registers(counts, 1)]

    def _fits_registers(self, lanes: LaneReductionCounts, chains: int) -> bool:
        """Whether registers hold the accumulators, a vector of each column and one of a row."""
        rows, columns = lanes
        return rows * columns * chains + columns + 1 <= self._machine.registers

    def _has_registers(self, packed: bool, laid: bool, registers: RegisterCounts) -> bool:
        """Allows a register tile if some reduction has one, no larger than that reduction; else
        only `NO_REGISTER_TILE`."""
        # Exactly one of "has register tiles" and "has none" is legal, so `NO_REGISTER_TILE` never
        # doubles a point.
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
        """Allows other unroll factors than the default only where some reduction has a register
        tile."""
        return self._has_register_tiles(packed, laid) or unrolled == UNROLL_FACTORS[0]

    def _may_fetch(self, packed: bool, laid: bool, ahead: float | None) -> bool:
        """Allows software prefetch only if some reduction has a register tile: along the lanes of
        one row, the hardware prefetcher suffices."""
        return ahead is None or self._has_register_tiles(packed, laid)

    def _may_share(self, packed: bool, laid: bool, shared: RowSharing) -> bool:
        """Allows copied and transposed rows only if the main stage reads them by broadcasts, one
        element of each row at a step."""
        return shared is RowSharing.AS_THEY_ARE or self._shape(packed, laid) is None

    def _has_register_tiles(self, packed: bool, laid: bool) -> bool:
        """Whether some reduction is vectorised over an index that it does not reduce."""
        return bool(self._secondary_shapes) or self._shape(packed, laid) is None

    def _has_lanes(self, packed: bool, laid: bool, lanes: LaneReductionCounts | None) -> bool:
        """Allows only offered counts that differ from the default, and `None`."""
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
        """Allows only chain counts that differ from the default, fit the registers and have a
        vector each to add in a `serial` tile."""
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
