"""The schedules of a kernel that are worth a trial, those of the best prediction first.

What is free and what limits it: the registers hold rows times vectors of sums; a panel of packed
columns is as wide as those vectors; a tile along the lanes is whole panels; the tiles that a block
keeps fit the second cache; there are blocks enough for all threads.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..ir import Fold, Index, Kernel, alone
from ..native.machine import Machine
from .memory import STORED
from .packed import Layout
from .predicting import predicted
from .roles import Roles, packable, roles
from .schedule import Schedule
from .shape import Wishes

_REGISTERS = ((8, 2), (6, 4), (4, 4), (4, 2), (2, 4), (12, 2), (14, 1), (1, 4), (1, 8))
"""Rows and vectors of sums."""
_SERIAL = (16, 64, 128, 256, 512)
_ROWS = (8, 16, 32, 64)
_PANELS = (1, 2, 4, 8, 16, 32)
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
        found = [*_folded(kernel, own, layouts, machine, threads)]
        if layouts:
            found += _folded(kernel, own, {}, machine, threads)
    costs = [(predicted(kernel, own, one, machine, threads), one) for one in found]
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


def _folded(
    kernel: Kernel,
    own: Roles,
    layouts: Mapping[str, Layout],
    machine: Machine,
    threads: int,
) -> Iterator[Schedule]:
    along, lanes = own.along, machine.width // 4
    assert along is not None
    for rows, vectors in _fitting(own, machine):
        wide = {name: replace(one, width=lanes * vectors) for name, one in layouts.items()}
        for tile in _columns(own, lanes * vectors, threads):
            for row in _row_tiles(own):
                for name, length in _serials(own):
                    tiles = _others(own)
                    if along in own.blocked:
                        tiles[along.name] = tile
                    if own.row is not None and own.row in own.blocked:
                        tiles[own.row.name] = row
                    if name is not None:
                        tiles[name] = length
                    wishes = Wishes(rows, vectors, 4)
                    panels = _panels(kernel, own, layouts, machine, row, rows, lanes * vectors)
                    for staged in _stagings(kernel, own):
                        for laid in ({}, panels) if panels else ({},):
                            one = Schedule(tiles, name, wishes, wide, staged, laid)
                            if _held(kernel, one) <= machine.l2:
                                yield one


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


def _serials(own: Roles) -> Iterator[tuple[str | None, int]]:
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


def _panels(
    kernel: Kernel,
    own: Roles,
    layouts: Mapping[str, Layout],
    machine: Machine,
    row: int,
    rows: int,
    width: int,
) -> dict[str, Layout]:
    """Inputs that are worth being laid out in each block: several blocks of rows read the tile."""
    if own.row is None or row < 3 * rows:
        return {}
    names = [one.name for one in kernel.inputs if one.name not in layouts]
    found = packable(kernel, names, machine)
    return {name: replace(one, width=width) for name, one in found.items()}


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


def _held(kernel: Kernel, schedule: Schedule) -> int:
    """Bytes of the tiles that a block keeps."""
    total = 0
    for stage in kernel.stages:
        if stage.target not in kernel.outputs or schedule.serial in {
            one.name for one in stage.folded
        }:
            total += _tile(stage.free, schedule) * STORED[stage.target.dtype][1]
    for buffer in kernel.inputs:
        if buffer.name in (*schedule.staged, *schedule.panels):
            loads = [load for stage in kernel.stages for load in stage.loads]
            own = [
                one
                for load in loads
                if load.buffer == buffer
                for one in map(alone, load.at)
                if one is not None
            ]
            total += _tile(dict.fromkeys(own), schedule) * STORED[buffer.dtype][1]
    return total


def _tile(free: Iterable[Index], schedule: Schedule) -> int:
    return math.prod(schedule.tile(one) for one in free)
