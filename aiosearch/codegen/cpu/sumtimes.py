"""How long sums take whose rows share what the lanes read, block of registers by block."""

from __future__ import annotations

from dataclasses import dataclass

from .matrixunit import DEPTH, LANES, ROWS

CLOCK = 4e9
NEAR = 100e9
"""Bytes a second that one thread reads of the second cache."""
_TURN = 6.0
"""Cycles that a block of registers costs before it begins."""
_FOUND = 200.0
"""Cycles until what a block of registers reads of memory comes, which then goes on to come."""
_WAYS, _MISSED = 8, 0.2
"""Rows that a first cache keeps a line of each of, and cycles for an element of every other one."""
_AGAIN = 128.0
"""Bytes that cost a cycle where several blocks of rows read them, although they are in a cache."""
_LOOSE = 0.5
"""Cycles for a vector that is in no panel: its rows lie apart, and on pages of their own."""
_STREAMS, _FEW, _FORGOTTEN = 16, 8, 128
"""So many rows of memory can be read side by side, each going on where it was: by a matrix unit, by
vectors, which read them again from the first cache; of so many, none."""
JUMP = 50.0
"""Cycles until lines of a row come that is not gone on with, where they come from memory."""
_MIXING = 3.0
"""Instructions that put pairs of rows beside each other, for each vector that was not laid out."""
_SLOW = 4.0
"""How many times as long as a product a product of pairs takes, where that is slow.

This and what follows was measured on an Emerald Rapids.
"""
_PRODUCT, _LOADED = 16.0, 8.0
"""Cycles of a matrix unit for a product of tiles, and for reading one."""
_DECODED = 2.5
"""Cycles until a vector is decoded."""
_WOVEN, _WAITING = 6.0, 16.0
"""Cycles until a vector is woven of two rows that were not laid out, and how many times a jump's
cycles a step waits for all of its rows."""
_EMPTIED = 48.0
"""Cycles until a tile of sums is where vectors can read it, and they have."""


@dataclass(frozen=True)
class Sum:
    """What a stage adds up."""

    total: int
    """Products."""
    inner: int
    """Of one sum."""
    dots: bool
    """Whether an instruction adds up two of them."""
    slow: bool
    """Whether that takes long."""
    matrix: bool
    """Whether there is a unit for it that takes products of matrices."""


@dataclass(frozen=True)
class Lying:
    """How a stage finds what it reads."""

    packed: bool
    coded: bool
    missed: bool
    """Whether rows that columns share lie too far apart for a cache."""
    streams: bool
    """Whether it comes from memory, rather than from what a block has laid out."""
    goes_on: bool
    """Whether a piece of a sum finds what it reads behind what the piece before has read."""
    across: float
    """Panels that a block reads of a row in memory, where the next row lies elsewhere; or 0."""
    widening: int = 0
    """Instructions until a vector of halves is one of floats,"""
    spreading: int = 0
    """and until a half is, that all lanes share."""


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


class Sums:
    """On one machine."""

    def __init__(self, l1: int) -> None:
        self._l1 = l1

    def cycles(
        self,
        one: Sum,
        tile: int,
        depth: int,
        most: int,
        vectors: int,
        lanes: int,
        matrix: bool,
        lying: Lying,
    ) -> float:
        """Of all, where a tile has so many rows, and most of them are in registers at once."""
        rows, cycles = min(most, tile), 0.0
        for count, some in ((tile // rows, rows), (1, tile % rows)):
            if not some:
                continue
            side_by_side = _STREAMS if one.matrix and matrix else _FEW
            jumps = _jumps(depth, lying.across, side_by_side) * some / tile
            if one.matrix and matrix:
                step = _matrix_step(some, vectors, lying)
                jumps *= _WAITING
            else:
                step = _step(one, some, vectors, vectors * lanes * 4, lying, some < tile)
            found = _FOUND * some / tile if lying.streams and not lying.across else 0.0
            if lying.goes_on:
                found *= depth / max(one.inner, 1)
            cycles += count * self._block(step, depth, some < tile, found, jumps)
        return one.total / (tile * vectors * lanes) * cycles

    def _block(self, step: _Step, depth: int, again: bool, found: float, jumps: float) -> float:
        """Of so many sums, for each product; again, if other rows read what these lanes read.

        Before the first, and at each step, so many cycles pass until memory comes.
        """
        cycles, steps = step.cycles + jumps, max(depth / step.depth, 1)
        if again and step.bytes * steps > self._l1 / 2:
            cycles = max(cycles, step.bytes * CLOCK / NEAR)
        return (cycles + (step.begun + found) / steps) / step.depth


def _step(one: Sum, rows: int, vectors: int, width: int, lying: Lying, again: bool) -> _Step:
    """By vector registers; the vectors have so many bytes together."""
    mixing = _MIXING * vectors if one.dots and not lying.packed else 0.0
    mixing += vectors * lying.widening + rows * lying.spreading
    taken = rows * vectors * (_SLOW if one.slow else 1)
    cycles = max((taken + mixing) / 2, (rows + vectors + mixing) / 2, 4.0)
    cycles = max(cycles, taken / 2 + vectors * _DECODED if lying.coded else 0)
    cycles += _MISSED * max(rows - _WAYS, 0) if lying.missed else 0
    cycles += width / _AGAIN if again else 0
    cycles += 0 if lying.packed else _LOOSE * vectors
    return _Step(2 if one.dots else 1, cycles, width, rows * vectors + _TURN)


def _jumps(depth: int, across: float, few: int) -> float:
    """Cycles of a step, where rows lie apart: down a few rows they go on where they were."""
    if not across:
        return 0.0
    lost = min(max(depth - few, 0) / (_FORGOTTEN - few), 1.0)
    return JUMP * (lost + (1 - lost) / across)


def _matrix_step(rows: int, vectors: int, lying: Lying) -> _Step:
    """By a matrix unit."""
    down = -(-rows // ROWS)
    each = _DECODED if lying.coded else 0.0 if lying.packed else _WOVEN
    made = vectors * DEPTH / 2 * each
    cycles = max(_PRODUCT * down * vectors, _LOADED * (down + vectors) + made)
    return _Step(DEPTH, cycles, vectors * DEPTH * LANES * 2, _EMPTIED * down * vectors)
