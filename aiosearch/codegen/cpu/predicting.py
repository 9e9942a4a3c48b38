"""How long a kernel should take by a schedule: a rough sum, good enough to order trials by."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from ..ir import Apply, Buffer, Fold, Index, Kernel, Load, Operation, Stage, alone, indices, walk
from ..native.machine import Machine
from .matrixunit import DEPTH, LANES, ROWS
from .memory import STORED
from .passes import passes
from .roles import Roles, halves, in_rows, work
from .schedule import Schedule
from .shape import Shape, Wishes
from .turned import turning_threads

BEGUN = 5e-6
"""Seconds until all threads have begun a kernel."""
_CLOCK = 4e9
_MEMORY = 30e9
"""Bytes a second that one thread reads of memory, and of the second cache."""
_NEAR = 100e9
_OVERLAP = 2
"""The slowest of arithmetic, memory and the second cache hides the others, but not all of them."""
_UNEVEN = 0.2
"""Of a block, how much longer the last thread takes than the others."""
_LATE = 50e-6
"""Seconds until the last thread has begun, at most."""
_DISTURBED = 0.03
"""How much longer a core takes that something else runs on as well."""
_TURN = 6.0
"""Cycles that a block of registers costs before it begins."""
_FOUND = 200.0
"""Cycles until what a block of registers reads of memory comes, which then goes on to come."""
_WAYS, _MISSED = 8, 0.2
"""Rows that a first cache keeps a line of each of, and cycles for an element of every other one."""
_AGAIN = 128.0
"""Bytes that cost a cycle where several blocks of rows read them, although they are in a cache."""
_COPIED = 0.08
"""Cycles that a block waits for a byte that it copies: nothing is computed meanwhile."""
_LOOSE = 0.5
"""Cycles for a vector that is in no panel: its rows lie apart, and on pages of their own."""
_MIXING = 3.0
"""Instructions that put pairs of rows beside each other, for each vector that was not laid out."""
_SLOW = 4.0
"""How many times as long as a product a product of pairs takes, where a matrix unit stands by.

This and what follows was measured on an Emerald Rapids.
"""
_PRODUCT, _LOADED = 16.0, 8.0
"""Cycles of a matrix unit for a product of tiles, and for reading one."""
_DECODED, _CODED = 2.5, 0.75
"""Cycles until a vector is decoded, and how many bytes it takes, of those that it has."""
_EMPTIED = 48.0
"""Cycles until a tile of sums is where vectors can read it, and they have."""
_LONG = {Operation.EXP, Operation.LOG, Operation.TANH, Operation.ERF, Operation.SIN, Operation.COS}
_CYCLES = {Operation.DIVIDE: 8.0, Operation.SQRT: 8.0, Operation.POW: 40.0} | dict.fromkeys(
    _LONG, 10.0
)


@dataclass(frozen=True)
class _Work:
    """What a stage does, whatever the schedule."""

    shape: Shape
    total: int
    missing: tuple[Index, ...]
    """What could be cut and does not concern it: blocks along these do the same."""
    cycles: float
    """Of one vector, where it is no sum that rows share."""
    shares: bool
    dots: bool
    matrix: bool
    """Whether there is a unit for it that takes products of matrices."""
    apart: frozenset[str]
    """Of what its lanes share: what does not lie side by side for its rows."""
    read: frozenset[str]


@dataclass(frozen=True)
class _Traffic:
    """What is read of an input."""

    name: str
    shape: tuple[int, ...]
    bytes: int
    missing: tuple[Index, ...]
    strides: bool
    """Whether the main stage goes down its columns, a row at a time."""


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
    fits: bool
    """Whether what several blocks read stays in the second cache meanwhile."""


@dataclass(frozen=True)
class _Lying:
    """How a stage finds what it reads."""

    packed: bool
    coded: bool
    missed: bool
    """Whether rows that columns share lie too far apart for a cache."""
    streams: bool
    """Whether it comes from memory, rather than from what a block has laid out."""
    goes_on: bool
    """Whether a piece of a sum finds what it reads behind what the piece before has read."""


@dataclass(frozen=True)
class _Step:
    """Of the innermost loop of a sum whose rows share what the lanes read."""

    depth: int
    """How many products each sum takes up."""
    cycles: float
    bytes: int
    """That the lanes read."""
    begun: float
    """Cycles that a block costs before its first step and behind its last."""


class Predictor:
    """Of one kernel on one machine."""

    def __init__(self, kernel: Kernel, own: Roles, machine: Machine, threads: int) -> None:
        self._kernel, self._own, self._threads = kernel, own, threads
        self._widest, self._l1, self._l2 = machine.width, machine.l1, machine.l2
        self._works = [self._work(stage, machine) for stage in kernel.stages]
        self._reads = [self._read(one) for one in kernel.inputs]
        self._written = sum(map(_bytes, kernel.outputs))
        self._cuts, self._summed = cache(self._cutting), cache(self._sums)
        self._passes = cache(self._passing)

    def seconds(self, schedule: Schedule) -> float:
        """What counts is which of two is less."""
        cuts = self._cuts(tuple(schedule.tiles.items()))
        if not cuts.blocks:
            return 0.0
        turns = self._passes(schedule.serial, schedule.keeps)
        cycles = sum(
            times * cuts.same[at] * self._cycles(at, schedule, cuts)
            for at, times in enumerate(turns)
            if times
        )
        copied = {*schedule.staged, *schedule.panels}
        reads = zip(self._reads, cuts.readers, strict=True)
        cycles += sum(one.bytes * times * _COPIED for one, times in reads if one.name in copied)
        beside = (cycles / _CLOCK, *self._traffic(schedule, cuts))
        block = sum(one**_OVERLAP for one in beside) ** (1 / _OVERLAP) / cuts.blocks
        return self._turning(schedule) + float(
            -(-cuts.blocks // self._threads) * block
            + min(_UNEVEN * block, _LATE + _DISTURBED * block)
        )

    def _cutting(self, tiles: tuple[tuple[str, int], ...]) -> _Cuts:
        cut = Schedule(dict(tiles))
        shapes = [one.shape for one in self._works]
        return _Cuts(
            _tiles(self._own.blocked, cut),
            tuple(_tiles(one.missing, cut) for one in self._works),
            tuple(_tile(one.row, cut) for one in shapes),
            tuple(_tile(one.along, cut) for one in shapes),
            tuple(_tile(one.inner, cut) for one in shapes),
            tuple(_tiles(one.missing, cut) for one in self._reads),
            sum(self._slice(one, cut) for one in self._reads if _tiles(one.missing, cut) > 1)
            <= self._l2,
        )

    def _turning(self, schedule: Schedule) -> float:
        """Before all blocks; that other kernels want the same is not counted."""
        found = 0.0
        for one in self._reads:
            layout = schedule.turned.get(one.name)
            if layout is not None:
                threads = turning_threads(layout, one.shape, self._threads)
                found += BEGUN + one.bytes * _COPIED / _CLOCK / threads
        return found

    def _work(self, stage: Stage, machine: Machine) -> _Work:
        used, shape = {*stage.free, *stage.folded}, self._own.shapes[stage]
        applied = [one for one in walk(stage.value) if isinstance(one, Apply)]
        steps = sum(_CYCLES.get(one.operation, 0.5) for one in applied)
        alone = stage.fold is not Fold.SUM or shape.along in stage.folded
        return _Work(
            shape,
            work(stage),
            tuple(one for one in self._own.blocked if one not in used),
            max(len(stage.loads) / 2, steps, 1.0),
            not alone,
            machine.bf16_dot and halves(stage) and in_rows(stage, shape.inner),
            machine.bf16_matrix and halves(stage) and in_rows(stage, shape.inner),
            frozenset(_apart(stage, shape)),
            frozenset(load.buffer.name for load in stage.loads),
        )

    def _read(self, buffer: Buffer) -> _Traffic:
        stages = self._kernel.stages
        loads = [one for stage in stages for one in stage.loads if one.buffer == buffer]
        used = {one for load in loads for one in _used(load)}
        mine = [load for load in self._own.stage.loads if load.buffer == buffer]
        return _Traffic(
            buffer.name,
            buffer.shape,
            _bytes(buffer),
            tuple(one for one in self._own.blocked if one not in used),
            any(self._own.along in _used(load) for load in mine),
        )

    def _passing(self, name: str | None, keeps: bool) -> list[int]:
        """In how many passes along the serial index each stage runs."""
        serial = next((one for one in self._kernel.indices if one.name == name), None)
        found: Counter[Buffer] = Counter()
        for one in passes(self._kernel, serial, keeps=keeps):
            found.update(stage.target for stage in (*one.before, *one.along))
        return [found[stage.target] for stage in self._kernel.stages]

    def _cycles(self, at: int, schedule: Schedule, cuts: _Cuts) -> float:
        """Of a stage."""
        one, lanes = self._works[at], schedule.lanes(self._widest)
        if one.shares:
            alone = cuts.columns[at] <= lanes * (schedule.wishes.vectors or 2)
            lying = self._lying(one, schedule, alone)
            return self._summed(at, cuts.rows[at], cuts.depths[at], schedule.wishes, lanes, lying)
        along = one.shape.along.size if one.shape.along is not None else 1
        return one.total / min(lanes, along) * one.cycles

    def _lying(self, one: _Work, schedule: Schedule, alone: bool) -> _Lying:
        """Alone, where a block has one panel."""
        read, layouts = one.read, schedule.layouts
        return _Lying(
            not (read.isdisjoint(layouts) and read.isdisjoint(schedule.panels)),
            any(layout.coded for name, layout in layouts.items() if name in read),
            bool(one.apart)
            and one.apart.isdisjoint(schedule.staged)
            and one.apart.isdisjoint(schedule.turned),
            read.isdisjoint(schedule.panels),
            alone and not read.isdisjoint(layouts),
        )

    def _sums(
        self, at: int, tile: int, depth: int, wishes: Wishes, lanes: int, lying: _Lying
    ) -> float:
        """Of sums that stay in registers while rows share what the lanes read."""
        one, vectors = self._works[at], wishes.vectors or 2
        rows = min(wishes.rows or 4, tile)
        cycles = 0.0
        for count, some in ((tile // rows, rows), (1, tile % rows)):
            if not some:
                continue
            if one.matrix and lying.packed and wishes.matrix:
                step = _matrix_step(some, vectors, lying.coded)
            else:
                step = _step(one, some, vectors, vectors * lanes * 4, lying, some < tile)
            found = _FOUND * some / tile if lying.streams else 0.0
            if lying.goes_on and one.shape.inner is not None:
                found *= depth / max(one.shape.inner.size, 1)
            cycles += count * self._block(step, depth, some < tile, found)
        return one.total / (tile * vectors * lanes) * cycles

    def _block(self, step: _Step, depth: int, again: bool, found: float) -> float:
        """Of so many sums, for each product; again, if other rows read what these lanes read.

        Before the first, so many cycles pass until memory comes.
        """
        cycles, steps = step.cycles, max(depth / step.depth, 1)
        if again and step.bytes * steps > self._l1 / 2:
            cycles = max(cycles, step.bytes * _CLOCK / _NEAR)
        return (cycles + (step.begun + found) / steps) / step.depth

    def _traffic(self, schedule: Schedule, cuts: _Cuts) -> tuple[float, float]:
        """Seconds for what comes from memory, and from the second cache where that keeps it."""
        memory, near = float(self._written), 0.0
        for one, readers in zip(self._reads, cuts.readers, strict=True):
            layout = schedule.layouts.get(one.name)
            read = one.bytes * (_CODED if layout and layout.coded else 1)
            memory += read * (1 if cuts.fits else readers)
            near += read * (readers - 1 if cuts.fits else 0)
            if one.strides and one.name not in schedule.layouts:
                memory += one.bytes * 0.3
        return memory / _MEMORY, near / _NEAR

    def _slice(self, one: _Traffic, schedule: Schedule) -> float:
        """What a block reads of an input, in bytes."""
        own = (each for each in self._own.blocked if each not in one.missing)
        return one.bytes / max(_tiles(own, schedule), 1)


def _step(one: _Work, rows: int, vectors: int, width: int, lying: _Lying, again: bool) -> _Step:
    """By vector registers; the vectors have so many bytes together."""
    mixing = _MIXING * vectors if one.dots and not lying.packed else 0.0
    taken = rows * vectors * (_SLOW if one.dots and one.matrix else 1)
    cycles = max((taken + mixing) / 2, (rows + vectors + mixing) / 2, 4.0)
    cycles = max(cycles, taken / 2 + vectors * _DECODED if lying.coded else 0)
    cycles += _MISSED * max(rows - _WAYS, 0) if lying.missed else 0
    cycles += width / _AGAIN if again else 0
    cycles += 0 if lying.packed else _LOOSE * vectors
    return _Step(2 if one.dots else 1, cycles, width, rows * vectors + _TURN)


def _matrix_step(rows: int, vectors: int, coded: bool) -> _Step:
    """By a matrix unit."""
    down = -(-rows // ROWS)
    decoded = vectors * DEPTH / 2 * _DECODED if coded else 0
    cycles = max(_PRODUCT * down * vectors, _LOADED * (down + vectors) + decoded)
    return _Step(DEPTH, cycles, vectors * DEPTH * LANES * 2, _EMPTIED * down * vectors)


def _apart(stage: Stage, shape: Shape) -> Iterator[str]:
    for load in stage.loads:
        shared = shape.row in _used(load) and shape.along not in _used(load)
        if shared and alone(load.at[-1]) != shape.row:
            yield load.buffer.name


def _used(load: Load) -> Collection[Index]:
    return {one for position in load.at for one in indices(position)}


def _bytes(buffer: Buffer) -> int:
    return math.prod(buffer.shape) * STORED[buffer.dtype][1]


def _tile(one: Index | None, schedule: Schedule) -> int:
    return 1 if one is None else schedule.tile(one)


def _tiles(some: Iterable[Index], schedule: Schedule) -> int:
    return math.prod(map(schedule.count, some))
