"""How long a kernel should take by a schedule: a rough sum, good enough to order trials by."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

from ...tensor.types import HALVES
from ..ir import Apply, Buffer, Fold, Index, Kernel, Load, Operation, Stage, alone, indices, walk
from ..native.handler import LINE
from ..native.machine import Machine
from .codes import SHARE
from .memory import bytes_of
from .packed import Layout
from .passes import passes
from .products import of_bf16
from .roles import Roles, far, in_rows, natural, work
from .schedule import Schedule
from .shape import Shape
from .sumtimes import CLOCK, JUMP, NEAR, Lying, Sum, Sums
from .turned import turning_threads
from .widening import made

BEGUN = 5e-6
"""Seconds until all threads have begun a kernel."""
_MEMORY = 30e9
"""Bytes a second that one thread reads of memory."""
_OVERLAP = 2
"""The slowest of arithmetic, memory and the second cache hides the others, but not all of them."""
_UNEVEN = 0.2
"""Of a block, how much longer the last thread takes than the others."""
_LATE = 50e-6
"""Seconds until the last thread has begun, at most."""
_DISTURBED = 0.03
"""How much longer a core takes that something else runs on as well."""
_COPIED = 0.08
"""Cycles that a block waits for a byte that it copies: nothing is computed meanwhile."""
_JOINED = 30.0
"""Cycles until lanes that were folded are one, and added to what is there."""
_BROUGHT = 0.35
"""The same where rows of what it copies lie apart in memory."""
_SPREAD = 2
"""Instructions that widen a half and spread it over all lanes, more than one that spreads it."""
_LONG = {
    Operation.EXP,
    Operation.LOG,
    Operation.EXPM1,
    Operation.TANH,
    Operation.ERF,
    Operation.ERFC,
    Operation.SIN,
    Operation.COS,
}
_CYCLES = {
    Operation.DIVIDE: 8.0,
    Operation.SQRT: 8.0,
    Operation.LOG1P: 18.0,
    Operation.POW: 40.0,
    **dict.fromkeys(_LONG, 10.0),
}


_Laid: TypeAlias = tuple[str, ...]
"""Inputs that lie in panels; along which of their axes is the same in all schedules."""


@dataclass(frozen=True)
class _Work:
    """What a stage does, however indices are cut."""

    shape: Shape
    total: int
    missing: tuple[Index, ...]
    """What could be cut and does not concern it: blocks along these do the same."""
    cycles: float
    """Of one vector, where it is no sum whose rows share what lanes read."""
    sum: Sum | None
    """Where it is one."""
    without: Sum | None
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
class _Traffic:
    """What is read of an input."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    missing: tuple[Index, ...]
    strides: bool
    """Whether the main stage goes down its columns, a row at a time."""
    columns: Index | None
    """Along its rows, where no cache holds it."""


@dataclass(frozen=True)
class _Cuts:
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


class Predictor:
    """Of one kernel on one machine."""

    def __init__(self, kernel: Kernel, own: Roles, machine: Machine, threads: int) -> None:
        self._kernel, self._own, self._threads = kernel, own, threads
        self._machine, self._widest, self._l2 = machine, machine.width, machine.l2
        self._works: dict[_Laid, list[_Work]] = {}
        self._reads = [self._read(one) for one in kernel.inputs]
        self._made = _made(kernel)
        self._narrow = frozenset(one.name for one in made(kernel))
        self._written = sum(bytes_of(one.dtype, one.shape) for one in kernel.outputs)
        self._cuts, self._summed = cache(self._cutting), cache(Sums(machine.l1).cycles)
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
        beside = (cycles / CLOCK, *self._traffic(schedule, cuts))
        block = sum(one**_OVERLAP for one in beside) ** (1 / _OVERLAP) / cuts.blocks
        return self._turning(schedule) + float(
            -(-cuts.blocks // self._threads) * block
            + min(_UNEVEN * block, _LATE + _DISTURBED * block)
        )

    def _cutting(self, tiles: tuple[tuple[str, int], ...], laid: _Laid) -> _Cuts:
        cut, works = Schedule(dict(tiles)), self._works[laid]
        shapes = [one.shape for one in works]
        readers = tuple(_tiles(one.missing, cut) for one in self._reads)
        reads = zip(self._reads, readers, strict=True)
        fits = sum(self._slice(one, cut) for one, times in reads if times > 1) <= self._l2
        return _Cuts(
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
                threads = turning_threads(layout, one.shape, self._threads)
                found += BEGUN + one.bytes * _COPIED / CLOCK / threads
        return found

    def _working(self, layouts: Mapping[str, Layout]) -> list[_Work]:
        """Of each stage; what is laid out decides along what its lanes lie."""
        shapes = (
            (one, natural(self._kernel, one, self._machine, layouts)) for one in self._kernel.stages
        )
        return [self._work(*each) for each in shapes]

    def _work(self, stage: Stage, shape: Shape) -> _Work:
        used, machine = {*stage.free, *stage.folded}, self._machine
        applied = [one for one in walk(stage.value) if isinstance(one, Apply)]
        steps = sum(_CYCLES.get(one.operation, 0.5) for one in applied)
        shares = stage.fold is Fold.SUM and shape.along not in stage.folded
        own = _sum(stage, shape, machine) if shares else None
        return _Work(
            shape,
            work(stage),
            tuple(one for one in self._own.blocked if one not in used),
            max(len(stage.loads) / 2, steps, 1.0),
            own,
            replace(own, dots=False, slow=False) if own else None,
            shape.along in stage.folded,
            frozenset(_apart(stage, shape)),
            far(stage, shape, self._kernel.inputs, machine.l2),
            frozenset(load.buffer.name for load in stage.loads),
            frozenset(_halves(stage, shape, moving=True)),
            frozenset(_halves(stage, shape, moving=False)),
        )

    def _read(self, buffer: Buffer) -> _Traffic:
        stages = self._kernel.stages
        loads = [one for stage in stages for one in stage.loads if one.buffer == buffer]
        used = {one for load in loads for one in _used(load)}
        mine = [load for load in self._own.stage.loads if load.buffer == buffer]
        matrix = bytes_of(buffer.dtype, buffer.shape[-2:])
        return _Traffic(
            buffer.name,
            buffer.shape,
            bytes_of(buffer.dtype, buffer.shape),
            tuple(one for one in self._own.blocked if one not in used),
            any(self._own.along in _used(load) for load in mine),
            alone(loads[0].at[-1]) if loads[0].at and matrix > self._l2 else None,
        )

    def _passing(self, name: str | None, keeps: bool) -> list[int]:
        """In how many passes along the serial index each stage runs."""
        serial = next((one for one in self._kernel.indices if one.name == name), None)
        found: Counter[Buffer] = Counter()
        for one in passes(self._kernel, serial, keeps=keeps):
            found.update(stage.target for stage in (*one.before, *one.along))
        return [found[stage.target] for stage in self._kernel.stages]

    def _cycles(self, one: _Work, at: int, schedule: Schedule, cuts: _Cuts) -> float:
        """Of a stage."""
        wishes, lanes = schedule.wishes, schedule.lanes(self._widest)
        if one.sum is None or one.without is None:
            along = one.shape.along.size if one.shape.along is not None else 1
            joined = one.total / cuts.columns[at] * _JOINED if one.lane_folded else 0.0
            return one.total / min(lanes, along) * one.cycles + joined
        rows, vectors = wishes.rows or 4, wishes.vectors or 2
        wide = self._widened(schedule)
        dots = one.sum.dots and wide.isdisjoint(one.moving) and wide.isdisjoint(one.shared)
        own = one.sum if dots else one.without
        lying = self._lying(one, schedule, cuts.columns[at], vectors * lanes)
        if not dots and (one.moving or one.shared):
            widening = _widening(one.moving - wide, schedule)
            spreading = _SPREAD if one.shared - wide else 0
            lying = replace(lying, widening=widening, spreading=spreading)
        tile, depth = cuts.rows[at], cuts.depths[at]
        return self._summed(own, tile, depth, rows, vectors, lanes, wishes.matrix, lying)

    def _lying(self, one: _Work, schedule: Schedule, columns: int, panel: int) -> Lying:
        """In a block that has so many columns."""
        read, layouts = one.read, schedule.layouts
        apart = one.far - layouts.keys() - schedule.panels.keys()
        along = one.shape.along
        whole = along is None or columns >= along.size
        return Lying(
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

    def _traffic(self, schedule: Schedule, cuts: _Cuts) -> tuple[float, float]:
        """Seconds for what comes from memory, and from the second cache where that keeps it."""
        memory, near = float(self._written), 0.0
        for one, readers in zip(self._reads, cuts.readers, strict=True):
            layout = schedule.layouts.get(one.name)
            read = one.bytes * (SHARE if layout and layout.coded else 1)
            memory += read * (1 if cuts.fits else readers)
            near += read * (readers - 1 if cuts.fits else 0)
            if one.strides and one.name not in schedule.layouts:
                memory += one.bytes * 0.3
        return memory / _MEMORY, near / NEAR

    def _slice(self, one: _Traffic, schedule: Schedule) -> float:
        """What a block reads of an input, in bytes."""
        own = (each for each in self._own.blocked if each not in one.missing)
        return one.bytes / max(_tiles(own, schedule), 1)


def _sum(stage: Stage, shape: Shape, machine: Machine) -> Sum:
    pairs = of_bf16(stage) and in_rows(stage, shape.inner)
    dots, matrix = machine.bf16_dot and pairs, machine.bf16_matrix and pairs
    inner = shape.inner.size if shape.inner is not None else 1
    return Sum(work(stage), inner, dots, dots and machine.slow_dots, matrix)


def _halves(stage: Stage, shape: Shape, *, moving: bool) -> Iterator[str]:
    for load in stage.loads:
        if load.buffer.dtype in HALVES and (shape.along in _used(load)) is moving:
            yield load.buffer.name


def _widening(names: frozenset[str], schedule: Schedule) -> int:
    """Instructions for a vector of these: of pairs, and of others."""
    if not names:
        return 0
    laid = {*schedule.layouts, *schedule.panels}
    return 2 if names.isdisjoint(laid) else 1


def _apart(stage: Stage, shape: Shape) -> Iterator[str]:
    for load in stage.loads:
        shared = shape.row in _used(load) and shape.along not in _used(load)
        if shared and alone(load.at[-1]) != shape.row:
            yield load.buffer.name


def _made(kernel: Kernel) -> frozenset[str]:
    """The inputs of which a block makes a tile for a sum, as if it copied them."""
    stages = (one for one in kernel.stages if not one.folded and one.target not in kernel.outputs)
    inputs = {one for one in kernel.inputs if len(one.shape) > 1}
    return frozenset(
        load.buffer.name
        for stage in stages
        for load in stage.loads
        if load.buffer in inputs and math.prod(load.buffer.shape) >= stage.work
    )


def _copying(one: _Traffic, cut: Schedule, readers: int, again: int) -> float:
    """Cycles for copies of all, tile by tile: each row of a tile lies somewhere else in memory.

    So many blocks copy the same, and so many of them have it from there.
    """
    waits = readers * one.bytes * _COPIED
    if one.columns is None or cut.count(one.columns) == 1:
        return waits
    row = cut.tile(one.columns) * one.bytes // math.prod(one.shape)
    return waits + again * one.bytes * (_BROUGHT + JUMP / max(row, LINE))


def _used(load: Load) -> Collection[Index]:
    return {one for position in load.at for one in indices(position)}


def _tile(one: Index | None, schedule: Schedule) -> int:
    return 1 if one is None else schedule.tile(one)


def _tiles(some: Iterable[Index], schedule: Schedule) -> int:
    return math.prod(map(schedule.count, some))
