"""Predicted cycles of a reduction's register tiles, by where their operands are."""

from __future__ import annotations

from dataclasses import dataclass

from ..reduce.amx_unit import AMX_DEPTH, AMX_LANES, AMX_ROWS

CLOCK_HERTZ = 4e9
L2_BYTES_PER_SECOND = 100e9
"""Bytes a second that one thread reads of the second cache."""
_REGISTER_TILE_START_CYCLES = 6.0
"""Cycles that a block of registers costs before it begins."""
DRAM_LATENCY_CYCLES = 200.0
"""Cycles until what a block of registers reads of memory comes, which then goes on to come."""
_L1_ROW_WAYS, _L1_CONFLICT_CYCLES = 8, 0.2
"""Rows that a first cache keeps a line of each of, and cycles for an element of every other one."""
_CACHED_REREAD_BYTES_PER_CYCLE = 128.0
"""Bytes that cost a cycle where several blocks of rows read them, although they are in a cache."""
_UNPACKED_VECTOR_CYCLES = 0.5
"""Cycles for a vector that is in no panel: its rows lie apart, and on pages of their own."""
_MATRIX_ROW_STREAMS, _VECTOR_ROW_STREAMS, _MOST_ROW_STREAMS = 16, 8, 128
"""So many rows of memory can be read side by side, each going on where it was: by a matrix unit, by
vectors, which read them again from the first cache; of so many, none."""
ROW_JUMP_CYCLES = 50.0
"""Cycles until lines of a row come that is not gone on with, where they come from memory."""
_INTERLEAVE_INSTRUCTIONS = 3.0
"""Instructions that put pairs of rows beside each other, for each vector that was not laid out."""
_SLOW_DOT_FACTOR = 4.0
"""How many times as long as a product a product of pairs takes, where that is slow.

This and what follows was measured on an Emerald Rapids.
"""
_AMX_PRODUCT_CYCLES, _AMX_LOAD_CYCLES = 16.0, 8.0
"""Cycles of a matrix unit for a product of tiles, and for reading one."""
_DECODE_CYCLES = 2.5
"""Cycles until a vector is decoded."""
_INTERLEAVE_CYCLES, _INTERLEAVE_WAIT_JUMPS = 6.0, 16.0
"""Cycles until a vector is woven of two rows that were not laid out, and how many times a jump's
cycles a step waits for all of its rows."""
_AMX_STORE_CYCLES = 48.0
"""Cycles until a tile of sums is where vectors can read it, and they have."""


@dataclass(frozen=True)
class ReductionWork:
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
class OperandPlacement:
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
class _InnerStepCost:
    """Of the innermost loop of a sum whose rows share what the lanes read."""

    depth: int
    """How many products each sum takes up."""
    cycles: float
    bytes: int
    """That the lanes read."""
    begun: float
    """Cycles that a block costs before its first step and behind its last."""


class ReductionCost:
    """On one machine."""

    def __init__(self, l1: int) -> None:
        self._l1 = l1

    def cycles(
        self,
        one: ReductionWork,
        tile: int,
        depth: int,
        most: int,
        vectors: int,
        lanes: int,
        matrix: bool,
        lying: OperandPlacement,
    ) -> float:
        """Of all, where a tile has so many rows, and most of them are in registers at once."""
        rows, cycles = min(most, tile), 0.0
        for count, some in ((tile // rows, rows), (1, tile % rows)):
            if not some:
                continue
            side_by_side = _MATRIX_ROW_STREAMS if one.matrix and matrix else _VECTOR_ROW_STREAMS
            jumps = _jumps(depth, lying.across, side_by_side) * some / tile
            if one.matrix and matrix:
                step = _matrix_step(some, vectors, lying)
                jumps *= _INTERLEAVE_WAIT_JUMPS
            else:
                step = _step(one, some, vectors, vectors * lanes * 4, lying, some < tile)
            found = DRAM_LATENCY_CYCLES * some / tile if lying.streams and not lying.across else 0.0
            if lying.goes_on:
                found *= depth / max(one.inner, 1)
            cycles += count * self._block(step, depth, some < tile, found, jumps)
        return one.total / (tile * vectors * lanes) * cycles

    def _block(
        self, step: _InnerStepCost, depth: int, again: bool, found: float, jumps: float
    ) -> float:
        """Of so many sums, for each product; again, if other rows read what these lanes read.

        Before the first, and at each step, so many cycles pass until memory comes.
        """
        cycles, steps = step.cycles + jumps, max(depth / step.depth, 1)
        if again and step.bytes * steps > self._l1 / 2:
            cycles = max(cycles, step.bytes * CLOCK_HERTZ / L2_BYTES_PER_SECOND)
        return (cycles + (step.begun + found) / steps) / step.depth


def _step(
    one: ReductionWork, rows: int, vectors: int, width: int, lying: OperandPlacement, again: bool
) -> _InnerStepCost:
    """By vector registers; the vectors have so many bytes together."""
    mixing = _INTERLEAVE_INSTRUCTIONS * vectors if one.dots and not lying.packed else 0.0
    mixing += vectors * lying.widening + rows * lying.spreading
    taken = rows * vectors * (_SLOW_DOT_FACTOR if one.slow else 1)
    cycles = max((taken + mixing) / 2, (rows + vectors + mixing) / 2, 4.0)
    cycles = max(cycles, taken / 2 + vectors * _DECODE_CYCLES if lying.coded else 0)
    cycles += _L1_CONFLICT_CYCLES * max(rows - _L1_ROW_WAYS, 0) if lying.missed else 0
    cycles += width / _CACHED_REREAD_BYTES_PER_CYCLE if again else 0
    cycles += 0 if lying.packed else _UNPACKED_VECTOR_CYCLES * vectors
    return _InnerStepCost(
        2 if one.dots else 1, cycles, width, rows * vectors + _REGISTER_TILE_START_CYCLES
    )


def _jumps(depth: int, across: float, few: int) -> float:
    """Cycles of a step, where rows lie apart: down a few rows they go on where they were."""
    if not across:
        return 0.0
    lost = min(max(depth - few, 0) / (_MOST_ROW_STREAMS - few), 1.0)
    return ROW_JUMP_CYCLES * (lost + (1 - lost) / across)


def _matrix_step(rows: int, vectors: int, lying: OperandPlacement) -> _InnerStepCost:
    """By a matrix unit."""
    down = -(-rows // AMX_ROWS)
    each = _DECODE_CYCLES if lying.coded else 0.0 if lying.packed else _INTERLEAVE_CYCLES
    made = vectors * AMX_DEPTH / 2 * each
    cycles = max(_AMX_PRODUCT_CYCLES * down * vectors, _AMX_LOAD_CYCLES * (down + vectors) + made)
    return _InnerStepCost(
        AMX_DEPTH, cycles, vectors * AMX_DEPTH * AMX_LANES * 2, _AMX_STORE_CYCLES * down * vectors
    )
