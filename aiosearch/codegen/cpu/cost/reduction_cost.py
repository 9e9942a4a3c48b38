"""Predicted cycles of a reduction's register tiles, by where their operands are.

The problem: a register tile of r rows by v vectors runs an innermost loop in which each step loads
v vectors and r broadcasts and issues r * v multiply-adds. How long a step takes depends on which of
these is the bottleneck, and on where the operands are: packed or strided, in L1, L2 or DRAM, f32 or
16-bit floats that have to be interleaved or widened first.

Example: f32, 8 rows by 2 vectors of 16 lanes, packed, 512 products per piece. A step issues 16
multiply-adds at 2 per cycle, 8 cycles; its 8 + 2 loads take 5 cycles, hidden. Starting the tile
costs 16 + 6 cycles and DRAM latency 200, of which 512/4096 count, as the other pieces of a sum
continue the same stream: 47 cycles over 512 steps. So a step takes 8.09 cycles, and `X[8, 4096] @
W[4096, 4096]`, 134 million products at 256 per step, 4.24 million cycles. With 1 row by 2 vectors
in registers a step takes the FMA latency of 4 cycles for an eighth of the products, and each of the
8 rows loads W again: 21.6 million cycles.

Invariants: a step never takes less than the FMA latency, and no cost makes it shorter. A prediction
takes constant time.

All constants are cycles of a 4 GHz core. Where nothing else is said, they were fitted to
`benchmarks/hand.py` and `benchmarks/kernels.py` on a Zen 4; those of AMX and of slow dot
instructions were measured on an Emerald Rapids (`benchmarks/dots.py`, `docs/all-figures.md`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..reduce.amx_unit import AMX_DEPTH, AMX_LANES, AMX_ROWS

CLOCK_HERTZ = 4e9
"""Clock rate that turns cycles into seconds. Rankings depend on its ratio to bandwidths only."""
L2_BYTES_PER_SECOND = 100e9
"""L2 bandwidth of one thread."""
_FMA_PER_CYCLE, _LOADS_PER_CYCLE = 2, 2
"""Multiply-adds, and loads, that are issued per cycle."""
FMA_LATENCY_CYCLES = 4.0
"""Cycles until an accumulator can take the next product: the least that a step takes."""
_REGISTER_TILE_START_CYCLES = 6.0
"""Cycles to start and leave the loop of a register tile, beside one per accumulator."""
DRAM_LATENCY_CYCLES = 200.0
"""Latency of the first line of a stream from DRAM; later lines are prefetched."""
_L1_ROW_WAYS, _L1_CONFLICT_CYCLES = 8, 0.2
"""Rows a power of two apart of which L1 keeps a line each, and cycles for an element of every
further row. L1 has 8 ways on Zen 4; with more rows, a line is evicted before its next element is
read.
"""
_CACHED_REREAD_BYTES_PER_CYCLE = 128.0
"""Bytes per cycle of the vectorised operand, read again by further register tiles of rows although
it is in a cache."""
_UNPACKED_VECTOR_CYCLES = 0.5
"""Cycles for a vector that is not in a panel: each row is on a page of its own, which costs address
translation."""
_MATRIX_ROW_STREAMS, _VECTOR_ROW_STREAMS, _MOST_ROW_STREAMS = 16, 8, 128
"""Row streams that the hardware prefetcher follows: 16 where AMX loads each line once, 8 where
vector loads read it again from L1, and none of 128 and more. Fitted to `benchmarks/hand.py
--lying`.
"""
ROW_JUMP_CYCLES = 50.0
"""Latency of the first lines of a row that the prefetcher does not follow, from DRAM. Fitted to
`benchmarks/hand.py --lying`."""
_INTERLEAVE_INSTRUCTIONS = 3.0
"""Instructions to interleave a pair of rows for the dot instruction, per unpacked vector."""
_SLOW_DOT_FACTOR = 4.0
"""Multiply-adds in whose time a slow dot instruction runs: an Emerald Rapids takes twice as long
for a pair of products as for two multiply-adds of f32 (`benchmarks/dots.py`)."""
_AMX_PRODUCT_CYCLES, _AMX_LOAD_CYCLES = 16.0, 8.0
"""Cycles of AMX for a product of tiles (`tdpbf16ps`), and to load a tile. Measured on an Emerald
Rapids."""
_DECODE_CYCLES = 2.5
"""Cycles to decode a vector of a coded panel. Measured on an Emerald Rapids."""
_INTERLEAVE_CYCLES, _INTERLEAVE_WAIT_JUMPS = 6.0, 16.0
"""Cycles to interleave a vector of two unpacked rows into an AMX tile, and how many times
`ROW_JUMP_CYCLES` a step waits until all of its 32 rows are there. Measured on an Emerald Rapids."""
_AMX_STORE_CYCLES = 48.0
"""Cycles to store an AMX tile of sums and load it into vector registers. Measured on an Emerald
Rapids."""


@dataclass(frozen=True)
class ReductionWork:
    """The products that a stage adds up."""

    total: int
    """Products of all sums together."""
    inner: int
    """Products of one sum."""
    dots: bool
    """Whether a dot instruction adds two products at once."""
    slow: bool
    """Whether the dot instruction is slower than two multiply-adds of f32."""
    matrix: bool
    """Whether AMX can take the products."""


@dataclass(frozen=True)
class OperandPlacement:
    """Where a reduction's operands are."""

    packed: bool
    """Whether the vectorised operand is in panels."""
    coded: bool
    """Whether those panels are coded, as `coded_format` describes."""
    l1_conflicts: bool
    """Whether the rows of the broadcast operand evict each other from L1."""
    from_dram: bool
    """Whether the operand comes from DRAM rather than from a tile that the block has packed."""
    contiguous_pieces: bool
    """Whether a serial tile continues where the one before it ended in memory."""
    panels_per_row: float
    """Register tiles side by side in each strided row of DRAM that a block reads; 0 where rows are
    not strided."""
    widening: int = 0
    """Instructions that widen a vector of 16-bit floats to f32."""
    spreading: int = 0
    """Instructions that widen a broadcast 16-bit float, beyond the broadcast itself."""


@dataclass(frozen=True)
class _InnerStepCost:
    """One step of the innermost loop of a register tile."""

    depth: int
    """Products that each accumulator adds in a step."""
    cycles: float
    """Cycles of a step, with all operands in L1."""
    bytes: int
    """Bytes of the vectorised operand that a step loads."""
    overhead_cycles: float
    """Cycles before the first step and after the last."""


class ReductionCost:
    """Cycles of reductions on a machine with an L1 of so many bytes."""

    def __init__(self, l1: int) -> None:
        self._l1 = l1

    def cycles(
        self,
        reduction: ReductionWork,
        tile: int,
        depth: int,
        most: int,
        vectors: int,
        lanes: int,
        matrix: bool,
        placement: OperandPlacement,
    ) -> float:
        """Cycles of a whole reduction in tiles of `tile` rows, up to `most` of which are in
        registers at once.

        `depth` is the products per serial tile, `matrix` asks for AMX. A remainder of rows runs as
        a smaller register tile: 20 rows by 8 are two tiles of 8 and one of 4.
        """
        rows, cycles = min(most, tile), 0.0
        # Full register tiles first, then one for the remaining rows.
        for count, tile_rows in ((tile // rows, rows), (1, tile % rows)):
            if not tile_rows:
                continue
            side_by_side = (
                _MATRIX_ROW_STREAMS if reduction.matrix and matrix else _VECTOR_ROW_STREAMS
            )
            jumps = _jumps(depth, placement.panels_per_row, side_by_side) * tile_rows / tile
            if reduction.matrix and matrix:
                step = _matrix_step(tile_rows, vectors, placement)
                jumps *= _INTERLEAVE_WAIT_JUMPS
            else:
                step = _step(
                    reduction, tile_rows, vectors, vectors * lanes * 4, placement, tile_rows < tile
                )
            # Later register tiles of the same columns find the lines in a cache, so the latency is
            # spread over the rows.
            latency = (
                DRAM_LATENCY_CYCLES * tile_rows / tile
                if placement.from_dram and not placement.panels_per_row
                else 0.0
            )
            if placement.contiguous_pieces:
                latency *= depth / max(reduction.inner, 1)
            cycles += count * self._block(step, depth, tile_rows < tile, latency, jumps)
        return reduction.total / (tile * vectors * lanes) * cycles

    def _block(
        self, step: _InnerStepCost, depth: int, again: bool, latency: float, jumps: float
    ) -> float:
        """Cycles per product of one register tile.

        `again` says that other register tiles read the same vectors, `latency` are cycles before
        the first step, and `jumps` cycles per step in which rows arrive from DRAM.
        """
        cycles, steps = step.cycles + jumps, max(depth / step.depth, 1)
        # Half of L1, as the other operand and the accumulators need the other half: beyond it, each
        # reread comes from L2 and its bandwidth bounds the step.
        if again and step.bytes * steps > self._l1 / 2:
            cycles = max(cycles, step.bytes * CLOCK_HERTZ / L2_BYTES_PER_SECOND)
        return (cycles + (step.overhead_cycles + latency) / steps) / step.depth


def _step(
    reduction: ReductionWork,
    rows: int,
    vectors: int,
    width: int,
    placement: OperandPlacement,
    again: bool,
) -> _InnerStepCost:
    """A step in vector registers; `width` are the bytes of its vectors, `again` whether other rows
    read them too."""
    mixing = _INTERLEAVE_INSTRUCTIONS * vectors if reduction.dots and not placement.packed else 0.0
    mixing += vectors * placement.widening + rows * placement.spreading
    multiply_adds = rows * vectors * (_SLOW_DOT_FACTOR if reduction.slow else 1)
    cycles = max(
        (multiply_adds + mixing) / _FMA_PER_CYCLE,
        (rows + vectors + mixing) / _LOADS_PER_CYCLE,
        FMA_LATENCY_CYCLES,
    )
    cycles = max(
        cycles, multiply_adds / _FMA_PER_CYCLE + vectors * _DECODE_CYCLES if placement.coded else 0
    )
    # Only broadcasts conflict: the vectorised operand is read in order and prefetched.
    cycles += _L1_CONFLICT_CYCLES * max(rows - _L1_ROW_WAYS, 0) if placement.l1_conflicts else 0
    cycles += width / _CACHED_REREAD_BYTES_PER_CYCLE if again else 0
    cycles += 0 if placement.packed else _UNPACKED_VECTOR_CYCLES * vectors
    return _InnerStepCost(
        2 if reduction.dots else 1, cycles, width, rows * vectors + _REGISTER_TILE_START_CYCLES
    )


def _jumps(depth: int, across: float, few: int) -> float:
    """Cycles per step for rows that are strided in DRAM, of which a serial tile reads `depth`.

    Up to `few` rows, the prefetcher follows each of them; with more rows it loses an increasing
    share, up to all.
    """
    if not across:
        return 0.0
    # Linear between "follows all" and "follows none": the prefetcher replaces its oldest stream, so
    # with more rows the chance that a row is still followed falls. A row that is followed costs one
    # jump per row of the block, spread over its panels.
    lost = min(max(depth - few, 0) / (_MOST_ROW_STREAMS - few), 1.0)
    return ROW_JUMP_CYCLES * (lost + (1 - lost) / across)


def _matrix_step(rows: int, vectors: int, placement: OperandPlacement) -> _InnerStepCost:
    """A step in AMX tiles."""
    # Loads and products of tiles overlap; interleaving and decoding delay the loads.
    down = -(-rows // AMX_ROWS)
    vector_cycles = (
        _DECODE_CYCLES if placement.coded else 0.0 if placement.packed else _INTERLEAVE_CYCLES
    )
    preparation = vectors * AMX_DEPTH / 2 * vector_cycles
    cycles = max(
        _AMX_PRODUCT_CYCLES * down * vectors, _AMX_LOAD_CYCLES * (down + vectors) + preparation
    )
    return _InnerStepCost(
        AMX_DEPTH, cycles, vectors * AMX_DEPTH * AMX_LANES * 2, _AMX_STORE_CYCLES * down * vectors
    )
