"""The schedules of a kernel that are worth a trial, those of the best prediction first.

What is free and what limits it: the registers hold rows times vectors of sums; a panel of packed
columns is as wide as those vectors; a tile along the lanes is whole panels; the tiles that a block
keeps fit the second cache; there are blocks enough for all threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...tensor.types import DType
from ..ir import Buffer, Fold, Index, Kernel, alone
from ..native.machine import Machine
from .memory import STORED
from .packed import Layout
from .predicting import Predictor
from .roles import Roles, packable, roles
from .schedule import Schedule
from .shape import Wishes

_REGISTERS = ((8, 2), (6, 4), (4, 4), (4, 2), (2, 4), (12, 2), (14, 1), (1, 4), (1, 8))
"""Rows and vectors of sums."""
_SERIAL = (16, 64, 128, 256, 512)
_ROWS = (8, 16, 32, 64, 128, 256)
_PANELS = (1, 2, 4, 8, 16, 32)
_EXACT = 1024
"""So many products may be added one after the other."""
_SMALL = 1 << 15
"""Elements of a block that maps."""


def choices(
    kernel: Kernel, machine: Machine, threads: int, constant: Iterable[str] = ()
) -> list[Schedule]:
    """All that keep to the limits, best predicted first."""
    return [one for _, one in priced(kernel, machine, threads, constant)]


def priced(
    kernel: Kernel, machine: Machine, threads: int, constant: Iterable[str] = ()
) -> list[tuple[float, Schedule]]:
    """The same, each with the seconds that it should take."""
    own = roles(kernel, machine)
    layouts = packable(kernel, constant, machine)
    if own.stage.fold is Fold.NONE or own.shape.inner is None or own.along is None:
        found = [*_mapped(kernel, own, threads)]
    else:
        found = [*_Folded(kernel, own, layouts, machine).schedules(threads)]
        if layouts:
            found += _Folded(kernel, own, {}, machine).schedules(threads)
    predictor = Predictor(kernel, own, machine, threads)
    costs = [(predictor.seconds(one), one) for one in found]
    return sorted(costs, key=lambda pair: pair[0])


def different(
    schedules: Sequence[tuple[float, Schedule]], most: int
) -> list[tuple[float, Schedule]]:
    """The first, and then always the first that uses registers and tiles unlike those before.

    What is left over goes to the best predicted.
    """
    found: dict[tuple[object, ...], tuple[float, Schedule]] = {}
    for pair in schedules:
        one, wishes = pair[1], pair[1].wishes
        laid = bool(one.layouts), bool(one.panels)
        found.setdefault((wishes.rows, wishes.vectors, *laid, one.serial), pair)
    chosen = list(found.values())[: max(1, most * 3 // 4)]
    others = [pair for pair in schedules if all(pair is not other for other in chosen)]
    return [*chosen, *others[: most - len(chosen)]]


def _mapped(kernel: Kernel, own: Roles, threads: int) -> Iterator[Schedule]:
    """Blocks of whole rows, as many as there is work for."""
    for most in (_SMALL, _SMALL // 8):
        tiles: dict[str, int] = {}
        held = 1
        for one in reversed(own.blocked):
            tile = max(1, min(one.size, most // held))
            tiles[one.name] = tile
            held *= tile
        yield Schedule(tiles)


class _Folded:
    """The schedules of a kernel whose main stage folds, without what was laid out or with it."""

    def __init__(
        self, kernel: Kernel, own: Roles, layouts: Mapping[str, Layout], machine: Machine
    ) -> None:
        self._own, self._layouts, self._machine = own, layouts, machine
        self._lanes = machine.width // 4
        self._others = _others(own)
        self._stagings = list(_stagings(kernel, own))
        self._serials = list(_serials(own, kernel.outputs))
        self._tiles = [*_tiles_kept(kernel)]
        names = [one.name for one in kernel.inputs if one.name not in layouts]
        self._panels = packable(kernel, names, machine)

    def schedules(self, threads: int) -> Iterator[Schedule]:
        """All that keep to the second cache."""
        for rows, vectors in _fitting(self._own, self._machine):
            for column in _columns(self._own, self._lanes * vectors, threads):
                for row in _row_tiles(self._own):
                    for name, length in self._serials:
                        tiles = self._cut(column, row, name, length)
                        yield from self._laid(tiles, name, rows, vectors, row)

    def _cut(self, column: int, row: int, serial: str | None, length: int) -> dict[str, int]:
        own, tiles = self._own, dict(self._others)
        if own.along in own.blocked and own.along is not None:
            tiles[own.along.name] = column
        if own.row in own.blocked and own.row is not None:
            tiles[own.row.name] = row
        if serial is not None:
            tiles[serial] = length
        return tiles

    def _laid(
        self, tiles: dict[str, int], serial: str | None, rows: int, vectors: int, row: int
    ) -> Iterator[Schedule]:
        """Inputs are laid out in each block where several blocks of rows read the tile."""
        wishes, width = Wishes(rows, vectors, 4), self._lanes * vectors
        wide = {name: replace(one, width=width) for name, one in self._layouts.items()}
        panels = {name: replace(one, width=width) for name, one in self._panels.items()}
        again = self._own.row is not None and row >= 3 * rows and panels
        for staged in self._stagings:
            for laid in ({}, panels) if again else ({},):
                one = Schedule(tiles, serial, wishes, wide, staged, laid)
                if self._held(one) <= self._machine.l2:
                    yield one

    def _held(self, schedule: Schedule) -> int:
        """Bytes of the tiles that a block keeps."""
        copied = {*schedule.staged, *schedule.panels}
        return sum(
            one.bytes * math.prod(schedule.tile(each) for each in one.free)
            for one in self._tiles
            if one.is_kept(schedule.serial, copied)
        )


@dataclass(frozen=True)
class _Tile:
    """What a block may keep."""

    free: tuple[Index, ...]
    bytes: int
    """Of an element."""
    folded: frozenset[str] | None
    """An output is kept while it is folded over these; scratch always."""
    copy_of: str = ""

    def is_kept(self, serial: str | None, copied: set[str]) -> bool:
        if self.copy_of:
            return self.copy_of in copied
        return self.folded is None or serial in self.folded


def _tiles_kept(kernel: Kernel) -> Iterator[_Tile]:
    for stage in kernel.stages:
        folded = frozenset(one.name for one in stage.folded)
        kept = folded if stage.target in kernel.outputs else None
        yield _Tile(stage.free, STORED[stage.target.dtype][1], kept)
    for buffer in kernel.inputs:
        loads = [load for stage in kernel.stages for load in stage.loads if load.buffer == buffer]
        places = [alone(position) for load in loads for position in load.at]
        free = tuple(dict.fromkeys(one for one in places if one is not None))
        yield _Tile(free, STORED[buffer.dtype][1], None, buffer.name)


def _fitting(own: Roles, machine: Machine) -> Iterator[tuple[int, int]]:
    registers = 32 if machine.width == 64 or machine.is_arm else 16
    most = own.row.size if own.row is not None else 1
    seen = set()
    for rows, vectors in _REGISTERS:
        kept = min(rows, most)
        if kept * vectors + vectors + 1 <= registers and (kept, vectors) not in seen:
            seen.add((kept, vectors))
            yield kept, vectors


def _columns(own: Roles, panel: int, threads: int) -> list[int]:
    along = own.along
    assert along is not None
    if along not in own.blocked:
        return [along.size]
    most = -(-along.size // threads)
    found = {min(panel * count, -(-most // panel) * panel) for count in _PANELS}
    return sorted(found)


def _row_tiles(own: Roles) -> list[int]:
    if own.row is None or own.row not in own.blocked or own.row.size <= _ROWS[0]:
        return [own.row.size if own.row is not None else 1]
    return [row for row in _ROWS if row < own.row.size] + [own.row.size] * (own.row.size <= 32)


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


def _stagings(kernel: Kernel, own: Roles) -> Iterator[tuple[str, ...]]:
    """Rows that several columns share are copied near where they lie far apart."""
    yield ()
    inner = own.shape.inner
    found = [
        load.buffer.name
        for load in own.stage.loads
        if load.buffer in kernel.inputs
        and inner in {alone(position) for position in load.at}
        and own.along not in {alone(position) for position in load.at}
        and own.row is not None
    ]
    if found:
        yield tuple(found)
