"""What is free in a kernel's schedule on a processor, as parameters with what limits them.

The registers hold rows times vectors of sums; a panel of packed columns is as wide as those
vectors; a tile along the lanes is whole panels; the tiles that a block keeps fit the second cache;
there are blocks enough for all threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from ...tensor.types import DType
from ..ir import Buffer, Fold, Kernel, Load, Stage, alone
from ..native.machine import Machine
from ..parameters import Choice, Parameter, Space, choices_of
from .kept import kept_bytes, tiles_of
from .matrixunit import DEPTH
from .packed import Layout
from .predicting import Predictor
from .roles import Roles, codable, halves, in_rows, packable, roles
from .schedule import Schedule
from .shape import Wishes
from .squares import turnable
from .turned import is_shared

# Sixteen rows by one vector read what the lanes read once, where there are no more rows.
_REGISTERS = ((8, 2), (6, 4), (4, 4), (4, 2), (2, 4), (12, 2), (16, 1), (14, 1), (1, 4), (1, 8))
"""Rows and vectors of sums."""
_MATRIX = ((16, 4), (32, 2), (16, 2), (16, 1), (48, 1))
"""The same for a matrix unit."""
_SERIAL = (16, 64, 128, 256, 512)
_ROWS = (8, 16, 32, 64, 128, 256)
_PANELS = (1, 2, 4, 8, 16, 32)
_UNROLLED = (4, 1, 2, 8)
_AHEAD = (None, 0.0, 0.5, 1.0, 2.0)
"""Times what is usual."""
_STREAMED = 4096
"""Bytes by which what is laid out beforehand is fetched ahead where nothing is said: it comes from
memory, once. Other inputs are not."""
_EXACT = 1024
"""So many products may be added one after the other."""
_NARROWEST = 16
"""Bytes of the narrowest vectors."""
_SMALL = 1 << 15
"""Elements of a block that maps."""


class Rows(StrEnum):
    """That columns share."""

    AS_THEY_ARE = "as they are"
    COPIED = "copied"
    """Each block copies its own, so that they lie close together."""
    TURNED = "turned"
    """They are laid side by side once, before all blocks."""


def space(
    kernel: Kernel, machine: Machine, threads: int, constant: Iterable[str] = ()
) -> Space[Schedule]:
    """All that is free; constant inputs may be laid out beforehand."""
    own = roles(kernel, machine)
    predictor = Predictor(kernel, own, machine, threads)
    if own.stage.fold is Fold.NONE or own.shape.inner is None or own.along is None:
        return _Maps(own, machine, predictor)
    return _Folds(kernel, own, machine, threads, packable(kernel, constant, machine), predictor)


def choices(
    kernel: Kernel, machine: Machine, threads: int, constant: Iterable[str] = ()
) -> list[Schedule]:
    """All that keep to the limits, best predicted first."""
    found = choices_of(space(kernel, machine, threads, constant))
    return [one.schedule for one in found]


def different(found: Sequence[Choice[Schedule]], most: int) -> list[Choice[Schedule]]:
    """The first, and then always the first that uses registers and tiles unlike those before.

    What is left over goes to the best predicted.
    """
    kinds: dict[tuple[object, ...], Choice[Schedule]] = {}
    for one in found:
        schedule, wishes = one.schedule, one.schedule.wishes
        coded = any(way.coded for way in schedule.layouts.values())
        laid = bool(schedule.layouts), coded, bool(schedule.panels), bool(schedule.turned)
        held = wishes.rows, wishes.vectors, wishes.matrix
        kinds.setdefault((*held, *laid, schedule.serial, schedule.keeps), one)
    chosen = list(kinds.values())[: max(1, most * 3 // 4)]
    others = [one for one in found if all(one is not other for other in chosen)]
    return [*chosen, *others[: most - len(chosen)]]


class _Maps:
    """Blocks of whole rows, as many as there is work for."""

    def __init__(self, own: Roles, machine: Machine, predictor: Predictor) -> None:
        self._own = own
        self.parameters = (Parameter("block", (_SMALL, _SMALL // 8)), _widths(machine))
        self.seconds = predictor.seconds

    def schedule(self, chosen: Mapping[str, Any]) -> Schedule:
        tiles: dict[str, int] = {}
        held = 1
        for one in reversed(self._own.blocked):
            tile = max(1, min(one.size, chosen["block"] // held))
            tiles[one.name] = tile
            held *= tile
        return Schedule(tiles, width=chosen["width"])


class _Folds:
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
        self._others = _others(own)
        self._kept = [*tiles_of(kernel)]
        self._lasting = {name for one in self._kept for name in one.lasts}
        self._layouts = layouts
        self._columns = {
            load.buffer.name: column
            for stage in kernel.stages
            for load in stage.loads
            if load.buffer.name in layouts
            and (column := alone(load.at[layouts[load.buffer.name].column])) is not None
        }
        """Tiles of these are of whole vectors."""
        self._codable = codable(kernel, layouts, machine)
        self._panels = {
            packed: packable(
                kernel,
                [one.name for one in kernel.inputs if not (packed and one.name in layouts)],
                machine,
            )
            for packed in (True, False)
        }
        self._shared = _shared(kernel, own, machine)
        self.seconds = predictor.seconds

    @cached_property
    def parameters(self) -> Sequence[Parameter]:
        own, packed = self._own, (True, False) if self._layouts else (False,)
        cut = own.along in own.blocked
        return (
            Parameter("packed", packed),
            Parameter("coded", (False, True) if self._codable else (False,)),
            Parameter("registers", tuple(_fitting(own, self._machine))),
            Parameter("panels", _PANELS if cut else _PANELS[:1]),
            Parameter("row", tuple(_row_tiles(own))),
            Parameter("serial", tuple(_serials(own, self._kernel.outputs))),
            Parameter("keeps", (False, True) if self._lasting else (False,)),
            Parameter("shared", tuple(Rows) if self._shared else (Rows.AS_THEY_ARE,)),
            Parameter("laid", (False, True) if any(self._panels.values()) else (False,)),
            Parameter("ahead", _AHEAD, fine=True),
            Parameter("unrolled", _UNROLLED, fine=True),
            Parameter("fastest", (None, *(one.name for one in own.blocked[:-1])), fine=True),
            _widths(self._machine),
        )

    def schedule(self, chosen: Mapping[str, Any]) -> Schedule | None:
        rows, vectors, matrix = chosen["registers"]
        vector = chosen["width"] or self._widest
        panel = vector // 4 * vectors
        column = self._column(chosen["panels"], panel)
        panels = self._panels[chosen["packed"]] if chosen["laid"] else {}
        if column is None or (chosen["laid"] and not (panels and self._is_read_again(chosen))):
            return None
        layouts = self._layouts if chosen["packed"] else {}
        if vector < self._widest and (chosen["coded"] or matrix):
            return None
        if chosen["coded"] and (vectors % 2 or chosen["laid"] or not chosen["packed"]):
            return None
        coded = self._codable if chosen["coded"] else {}
        if matrix and not self._is_for_matrices({*layouts, *panels}, *chosen["serial"]):
            return None
        turned = self._turned(chosen, {*layouts, *panels})
        if chosen["shared"] is Rows.TURNED and not turned:
            return None
        streamed = self._ahead(vectors * vector, bool(coded))
        usual = streamed if layouts else 0
        ahead = usual if chosen["ahead"] is None else int(streamed * chosen["ahead"])
        if chosen["ahead"] is not None and ahead == usual:
            return None
        if chosen["keeps"] and chosen["serial"][0] not in self._lasting:
            return None
        found = Schedule(
            self._tiles(column, chosen["row"], *chosen["serial"]),
            chosen["serial"][0],
            Wishes(rows, vectors, chosen["unrolled"], ahead, matrix),
            {name: replace(one, width=panel, coded=name in coded) for name, one in layouts.items()},
            tuple(self._shared) if chosen["shared"] is Rows.COPIED else (),
            turned,
            {name: replace(one, width=panel) for name, one in panels.items()},
            chosen["fastest"],
            chosen["keeps"],
            chosen["width"],
        )
        if any(one.size % panel or found.tile(one) % panel for one in coded.values()):
            return None
        cut = (self._columns[name] for name in layouts)
        if any(found.count(one) > 1 and found.tile(one) % (vector // 4) for one in cut):
            return None
        if not self._is_another_order(found):
            return None
        return found if kept_bytes(self._kept, found) <= self._machine.l2 else None

    def _column(self, count: int, panel: int) -> int | None:
        """The tile along the lanes; nothing where fewer panels are as many."""
        along = self._own.along
        assert along is not None
        if along not in self._own.blocked:
            return along.size
        most = -(-along.size // self._threads)
        whole = -(-most // panel)
        return panel * min(count, whole) if count == 1 or count // 2 < whole else None

    def _turned(self, chosen: Mapping[str, Any], laid: Set[str]) -> dict[str, Layout]:
        """As many rows side by side as are in registers, where so many can be turned."""
        rows, _, matrix = chosen["registers"]
        fits = rows > 1 and not matrix and turnable(rows, self._widest // 4)
        if chosen["shared"] is not Rows.TURNED or not fits:
            return {}
        return {
            name: replace(one, width=rows)
            for name, one in self._shared.items()
            if one is not None and name not in laid
        }

    def _is_read_again(self, chosen: Mapping[str, Any]) -> bool:
        """Inputs are laid out in each block where several blocks of rows read the tile."""
        rows, _, matrix = chosen["registers"]
        return self._own.row is not None and bool(chosen["row"] >= (1 if matrix else 3) * rows)

    def _is_for_matrices(self, laid: Set[str], serial: str | None, length: int) -> bool:
        """Whether the main stage reads panels, enough rows of them, and another factor in rows."""
        inner = self._own.shape.inner
        assert inner is not None
        deep = length if serial == inner.name else inner.size
        stage = self._own.stage
        read = {load.buffer.name for load in stage.loads}
        return deep >= DEPTH and not laid.isdisjoint(read) and in_rows(stage, inner, laid)

    def _ahead(self, row: int, coded: bool) -> int:
        """Pairs of rows of so many bytes, two of which lie side by side where they are paired.

        What is coded is read from two places, and of fewer bytes: twice as far.
        """
        paired = any(one.pairs for one in self._layouts.values())
        found = _STREAMED // row // (1 if paired else 2)
        return 2 * found if coded else found

    def _is_another_order(self, schedule: Schedule) -> bool:
        """Or none at all."""
        cut = [one.name for one in self._own.blocked if schedule.count(one) > 1]
        return schedule.fastest is None or schedule.fastest in cut[:-1]

    def _tiles(self, column: int, row: int, serial: str | None, length: int) -> dict[str, int]:
        own, tiles = self._own, dict(self._others)
        if own.along in own.blocked and own.along is not None:
            tiles[own.along.name] = column
        if own.row in own.blocked and own.row is not None:
            tiles[own.row.name] = row
        if serial is not None:
            tiles[serial] = length
        return tiles


def _widths(machine: Machine) -> Parameter:
    """Of vectors: the widest, and half of that, of which some processors do more in a cycle."""
    half = (machine.width // 2,) if machine.width > _NARROWEST else ()
    return Parameter("width", (0, *half), fine=True)


def _fitting(own: Roles, machine: Machine) -> Iterator[tuple[int, int, bool]]:
    """Rows and vectors of sums, and whether they are a matrix unit's."""
    most = own.row.size if own.row is not None else 1
    if machine.bf16_matrix and halves(own.stage):
        yield from dict.fromkeys((min(rows, most), vectors, True) for rows, vectors in _MATRIX)
    seen = set()
    for rows, vectors in _REGISTERS:
        kept = min(rows, most)
        if kept * vectors + vectors + 1 <= machine.registers and (kept, vectors) not in seen:
            seen.add((kept, vectors))
            yield kept, vectors, False


def _row_tiles(own: Roles) -> list[int]:
    """All rows are one tile where they are not too many, which reads all else once."""
    if own.row is None or own.row not in own.blocked or own.row.size <= _ROWS[0]:
        return [own.row.size if own.row is not None else 1]
    most = min(own.row.size, _ROWS[-1])
    return [*(row for row in _ROWS if row < most), most]


def _serials(own: Roles, outputs: Iterable[Buffer]) -> Iterator[tuple[str | None, int]]:
    """Long sums are cut where outputs are more exact than one long sum is."""
    exact = any(one.dtype in (DType.F32, DType.F64) for one in outputs)
    inner = own.shape.inner
    if not exact or inner not in own.serial or inner is None or inner.size <= _EXACT:
        yield None, 0
    for one in own.serial:
        yield from ((one.name, length) for length in _SERIAL if length < one.size)


def _others(own: Roles) -> dict[str, int]:
    """What all sums depend on is cut as fine as can be: no block does what another one does."""
    sums = [stage for stage in own.shapes if stage.fold is not Fold.NONE]
    return {
        one.name: 1
        for one in own.blocked
        if one not in (own.along, own.row) and all(one in stage.free for stage in sums)
    }


def _shared(kernel: Kernel, own: Roles, machine: Machine) -> dict[str, Layout | None]:
    """Rows that several columns share; and panels of them, where they lie far apart."""
    found: dict[str, Layout | None] = {}
    row, inner = own.row, own.shape.inner
    for load in own.stage.loads:
        places = [alone(position) for position in load.at]
        if load.buffer not in kernel.inputs or own.along in places or row is None:
            continue
        if inner in places:
            apart = row in places and places[-1] == inner and _alike(kernel, own.stage, load)
            found[load.buffer.name] = _beside(kernel, own, load, machine) if apart else None
    return found


def _beside(kernel: Kernel, own: Roles, load: Load, machine: Machine) -> Layout:
    """A vector's width of rows; in pairs, where any stage takes them so."""
    row = next(axis for axis, one in enumerate(load.at) if alone(one) == own.row)
    pairs = machine.bf16_dot and any(halves(one) and load in one.loads for one in kernel.stages)
    return Layout(len(load.at) - 1, row, machine.width // 4, pairs)


def _alike(kernel: Kernel, stage: Stage, load: Load) -> bool:
    """Whether all that would be read of a copy is read as this stage does it."""
    others = {
        each
        for one in kernel.stages
        for each in one.loads
        if each.buffer == load.buffer and is_shared(one, each)
    }
    return is_shared(stage, load) and others == {load}
