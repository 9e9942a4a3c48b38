"""What is free where a kernel's main stage folds: registers, tiles, and how its inputs lie.

The registers hold rows times vectors of sums; a panel of packed columns is as wide as those
vectors; a tile along the lanes is whole panels; the tiles that a block keeps fit the second cache;
there are blocks enough for all threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import product
from typing import Any

from ...tensor.types import HALVES
from ..ir import Index, Kernel, alone
from ..native.machine import Machine
from ..parameters import Constraint, Parameter
from .fetching import Fetched, Fetching
from .kept import Room
from .lanewise import Lanewise
from .matrixunit import DEPTH
from .offered import (
    AHEAD,
    NONE,
    PANELS,
    TOGETHER,
    UNROLLED,
    Registers,
    Rows,
    Serial,
    row_tiles,
    serials,
    shared_rows,
    uncut,
    widths,
)
from .packed import Layout
from .predicting import Predictor
from .products import of_bf16
from .roles import Roles, codable, far, in_rows, packable, woven
from .schedule import Schedule
from .shape import Wishes
from .squares import turnable
from .widening import made, offered

_TILED = ("registers", "width", "panels", "row", "serial")
"""On these, in this order, depends how indices are cut."""


class Foldings:
    """The schedules of a kernel whose main stage folds."""

    def __init__(
        self,
        kernel: Kernel,
        own: Roles,
        machine: Machine,
        threads: int,
        layouts: Mapping[str, Layout],
        predictor: Predictor,
    ) -> None:
        self._kernel, self._own, self._machine, self._threads = kernel, own, machine, threads
        self._widest = machine.width
        self._others = uncut(own)
        self._rooms = {wide: Room(kernel, wide=wide) for wide in (False, True)}
        self._most = machine.l2
        self._halves = {one.name for one in kernel.inputs if one.dtype in HALVES}
        self._makes_halves = bool(made(kernel))
        self._layouts = layouts
        self._codable = codable(kernel, layouts, machine)
        self._panels = {
            packed: packable(
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
        self._lanewise = Lanewise(kernel, own, machine, self._laid)
        self._fetching = Fetching(
            far(own.stage, own.shape, kernel.inputs, machine.l2),
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
    def parameters(self) -> Sequence[Parameter]:
        own, kernel = self._own, self._kernel
        packed = (True, False) if self._layouts else (False,)
        cut = own.along in own.blocked
        return (
            Parameter("packed", packed),
            Parameter("coded", (False, True) if self._codable else (False,)),
            Parameter("registers", self._lanewise.registers),
            Parameter("panels", PANELS if cut else PANELS[:1]),
            Parameter("row", tuple(row_tiles(own))),
            Parameter("serial", tuple(serials(own, kernel.outputs))),
            Parameter("keeps", (False, True) if self._rooms[False].lasting else (False,)),
            Parameter("shared", tuple(Rows) if self._shared else (Rows.AS_THEY_ARE,)),
            Parameter("laid", (False, True) if any(self._panels.values()) else (False,)),
            Parameter("wide", (False, True) if offered(kernel, self._machine) else (False,)),
            Parameter("ahead", AHEAD, fine=True),
            Parameter("nearest", (False, True), fine=True),
            Parameter("down", (False, True), fine=True),
            Parameter("unrolled", UNROLLED, fine=True),
            *self._lanewise.parameters,
            Parameter("fastest", (None, *(one.name for one in own.blocked[:-1])), fine=True),
            widths(self._machine),
        )

    @cached_property
    def constraints(self) -> Sequence[Constraint]:
        return (
            # The first, as all that ask how indices are cut rely on it.
            Constraint(("registers", "width", "panels"), self._has_columns),
            Constraint(("registers", "width", "serial"), self._has_vectors),
            Constraint(("registers", "row"), self._has_rows),
            Constraint(("packed", "laid"), self._has_panels),
            Constraint(("registers", "row", "laid"), self._reads_again),
            Constraint(("coded", "registers", "width"), self._is_wide),
            Constraint(("packed", "coded", "laid", "registers"), self._may_be_coded),
            Constraint(("packed", "laid", "registers", "serial"), self._suits_matrices),
            Constraint(("packed", "laid", "registers", "shared"), self._may_be_turned),
            Constraint(("packed", "laid", "shared"), self._may_be_copied),
            Constraint(("packed", "laid", "registers", "shared", "wide"), self._widens),
            Constraint(("serial", "unrolled"), self._turns),
            *self._fetching.constraints,
            *self._lanewise.constraints,
            Constraint(("serial", "keeps"), self._lasts),
            Constraint((*_TILED, "coded"), self._cuts_codes),
            Constraint((*_TILED, "packed", "laid"), self._cuts_vectors),
            Constraint((*_TILED, "fastest"), self._is_another_order),
            Constraint((*_TILED, "packed", "laid", "shared", "keeps", "wide"), self._finds_room),
        )

    def schedule(self, chosen: Mapping[str, Any]) -> Schedule:
        packed, coded, registers = chosen["packed"], chosen["coded"], chosen["registers"]
        wide = chosen["wide"]
        rows, vectors, matrix = registers
        panel = self._panel(registers, chosen["width"])
        ahead, across = self._fetched(*(chosen[one] for one in Fetched._fields))
        return Schedule(
            self._tiled(*(chosen[one] for one in _TILED)).tiles,
            chosen["serial"][0],
            Wishes(
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
            _narrow(self._turned(packed, chosen["laid"], registers, chosen["shared"]), wide),
            _narrow(self._laid_out(packed, None, panel) if chosen["laid"] else {}, wide),
            chosen["fastest"],
            chosen["keeps"],
            chosen["width"],
            wide,
        )

    def _panel(self, registers: Registers, width: int) -> int:
        """The columns that a panel is wide, or would be."""
        return TOGETHER if registers == NONE else self._vector(width) // 4 * registers[1]

    def _vector(self, width: int) -> int:
        return width or self._widest

    def _laying(self, packed: bool, coded: bool | None, panel: int) -> dict[str, Layout]:
        """What lies in panels: beforehand, coded or not, or in a block where that is not asked."""
        if coded is None:
            return {name: replace(one, width=panel) for name, one in self._panels[packed].items()}
        codes = self._codable if coded else {}
        return {
            name: replace(one, width=panel, coded=name in codes)
            for name, one in (self._layouts if packed else {}).items()
        }

    def _copied(self, shared: Rows) -> tuple[str, ...]:
        return tuple(self._shared) if shared is Rows.COPIED else ()

    def _tiling(
        self, registers: Registers, width: int, panels: int, row: int, serial: Serial
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

    def _side_by_side(self, packed: bool, laid: bool) -> list[Index]:
        """Along which panels lie side by side."""
        layouts = self._laid[packed, laid]
        loads = [load for stage in self._kernel.stages for load in stage.loads]
        read = [(load, layouts[load.buffer.name]) for load in loads if load.buffer.name in layouts]
        columns = [alone(load.at[layout.column]) for load, layout in read]
        return [one for one in columns if one is not None]

    def _has_columns(self, registers: Registers, width: int, panels: int) -> bool:
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

    def _has_vectors(self, registers: Registers, width: int, serial: Serial) -> bool:
        """Whether there are so many along the lanes of any fold."""
        _, vectors, matrix = registers
        if matrix or self._own.along in self._own.stage.folded:
            return True
        most = max(self._extent(one, serial) for one in self._lanes)
        return vectors <= max(1, -(-most // (self._vector(width) // 4)))

    @cached_property
    def _lanes(self) -> list[Index]:
        """Along which those of folds lie, but for those that lie along what is folded."""
        shapes = self._own.shapes.items()
        folds = ((stage, own.along) for stage, own in shapes if stage.folded)
        return [one for stage, one in folds if one is not None and one not in stage.folded]

    def _has_rows(self, registers: Registers, row: int) -> bool:
        """Whether a block's tile has so many."""
        rows, _, _ = registers
        return rows <= row

    def _has_panels(self, packed: bool, laid: bool) -> bool:
        """Whether there is something for a block to lay out."""
        return not laid or bool(self._panels[packed])

    def _reads_again(self, registers: Registers, row: int, laid: bool) -> bool:
        """Inputs are laid out in each block where several blocks of rows read the tile."""
        rows, _, matrix = registers
        return not laid or (self._own.row is not None and row >= (1 if matrix else 3) * rows)

    def _is_wide(self, coded: bool, registers: Registers, width: int) -> bool:
        """What is coded, and a matrix unit, have the widest vectors."""
        return self._vector(width) == self._widest or not (coded or registers[2])

    def _may_be_coded(self, packed: bool, coded: bool, laid: bool, registers: Registers) -> bool:
        """Vectors by pairs, and nothing but what was laid out beforehand."""
        return not coded or (packed and not laid and registers[1] % 2 == 0)

    def _suits_matrices(
        self, packed: bool, laid: bool, registers: Registers, serial: Serial
    ) -> bool:
        """Whether the main stage reads enough rows, in panels or woven, and a factor in rows."""
        if not registers[2]:
            return True
        inner, stage = self._own.shape.inner, self._own.stage
        read = {load.buffer.name for load in stage.loads}
        moving = self._laid[packed, laid].keys() & read or woven(stage, self._own.shape)
        return self._depth(serial) >= DEPTH and bool(moving) and in_rows(stage, inner, moving)

    def _turns(self, serial: Serial, unrolled: int) -> bool:
        """Whether there are so many steps: of a pair of rows, where some lie or are taken so."""
        pairs = any(one.pairs for laid in self._laid.values() for one in laid.values())
        pairs |= self._machine.bf16_dot and of_bf16(self._own.stage)
        step, usual = 2 if pairs else 1, UNROLLED[0]
        return unrolled == usual or max(unrolled, usual) * step <= self._depth(serial)

    def _depth(self, serial: Serial) -> int:
        """How much of what the main stage folds innermost a block folds at a time."""
        inner = self._own.shape.inner
        assert inner is not None
        return self._extent(inner, serial)

    def _extent(self, one: Index, serial: Serial) -> int:
        """How much of an index there is at a time, at most."""
        name, length = serial
        return length if name == one.name else one.size

    def _may_be_copied(self, packed: bool, laid: bool, shared: Rows) -> bool:
        """Whether there is something that does not lie in panels."""
        return shared is not Rows.COPIED or bool(self._shared.keys() - self._laid[packed, laid])

    def _widens(
        self, packed: bool, laid: bool, registers: Registers, shared: Rows, wide: bool
    ) -> bool:
        """Whether there are halves to widen, and no matrix unit that takes them as they are."""
        if not wide:
            return True
        copied = {*self._copied(shared), *self._turned(packed, laid, registers, shared)}
        copied |= self._panels[packed].keys() if laid else set()
        return not registers[2] and (self._makes_halves or bool(copied & self._halves))

    def _may_be_turned(self, packed: bool, laid: bool, registers: Registers, shared: Rows) -> bool:
        return shared is not Rows.TURNED or bool(self._turned(packed, laid, registers, shared))

    def _turned(
        self, packed: bool, laid: bool, registers: Registers, shared: Rows
    ) -> dict[str, Layout]:
        """As many rows side by side as are in registers, where so many can be turned."""
        rows, _, matrix = registers
        fits = rows > 1 and not matrix and turnable(rows, self._widest // 4)
        if shared is not Rows.TURNED or not fits:
            return {}
        panels = self._laid[packed, laid]
        return {
            name: replace(one, width=rows)
            for name, one in self._shared.items()
            if one is not None and name not in panels
        }

    def _lasts(self, serial: Serial, keeps: bool) -> bool:
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


def _narrow(laid: dict[str, Layout], wide: bool) -> dict[str, Layout]:
    """What is widened lies in no pairs."""
    return {name: replace(one, pairs=one.pairs and not wide) for name, one in laid.items()}
