"""The time that a tiled kernel takes on a GPU, predicted from what its blocks ask for.

The problem: of some thousand tilings a few are compiled and timed, so the order matters more than
the figure. Four things bound the time from below, and none of them is ever reached alone:

    memory       all bytes once, at what DRAM gives at best
    stream       the busiest multiprocessor's bytes, at what it can draw: its own ceiling, or what
                 is on its way (resident blocks x stages ahead x a step's bytes) over the latency
    arithmetic   dots and the rest, what warps issue one after the other, and spilled registers
    chain        steps in a row of one block, where nothing is loaded ahead

They overlap, but not wholly, which their sum to the fourth power says: where two are alike, the
kernel takes a fifth longer than either. Of eight rows by 4096x6144, tiles of 16x64x64, two warps
and five stages give 96 blocks, which is less than the 132 multiprocessors of an H100: each has one
block with 40 KiB on its way, and the kernel takes 34 microseconds, where 192 blocks with two on
half of the multiprocessors take 21.

The constants below are fitted to `benchmarks/device/sweep_h100.jsonl`, 355 tilings of six programs,
by `benchmarks/device/predictor.py`, which prints how well the order is met, also for programs that
were left out of the fit. The cost is some hundred operations for a tiling.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ....tensor.types import DType
from .block_demand import BlockDemand, DotProduct
from .register_pressure import TALL_DOT_ROWS, WARPGROUP_WARPS

if TYPE_CHECKING:
    from ....devices import Device

MOST_REGISTERS_PER_THREAD = 255
"""The most registers of four bytes that a thread may have."""
_REGISTERS_PER_MULTIPROCESSOR = 65536
"""Registers of a multiprocessor (CUDA C++ Programming Guide, technical specifications)."""
_BASE_REGISTERS_PER_THREAD = 40
"""Registers of a thread for positions, masks and what the compiler likes to hold."""
_THREADS_PER_WARP = 32
_SPECIAL_RESULTS_PER_CYCLE = 16
"""Results of special functions in a cycle: a multiprocessor has 16 units for them, of 128 that
multiply and add (CUDA C++ Programming Guide, throughput of native arithmetic instructions), which
count twice."""

_DRAM_LATENCY_SECONDS = 9e-7
"""Seconds from asking the device's memory to having it, with other blocks asking too; fitted."""
_DRAM_EFFICIENCY = 0.78
"""What of the data sheet's bytes per second the best kernels come to; fitted."""
_MULTIPROCESSOR_BYTES_PER_SECOND = 42e9
"""What one multiprocessor draws at most; fitted, and 24 bytes per cycle at 1.755 GHz."""
_ARITHMETIC_EFFICIENCY = 0.41
"""What of the data sheet's operations kernels with dots come to, while instructions wait for each
other; fitted."""
_DOT_ISSUE_SECONDS = 7.5e-9
"""For which a warp keeps its multiprocessor, for each matrix instruction's depth; fitted. A small
tile has all warps of a block do the same: with 16x16 and eight warps it costs five times as much
as reading the weights."""
_SPILL_SECONDS = 5.7e-10
"""For which a warp stores and reloads one register in an iteration; fitted."""
_DOT_DEPTH = 16
"""What a matrix instruction sums over."""
_DOT_LATENCY_SECONDS = 4e-8
"""Of one matrix instruction, which the next one on the same sums waits for; chosen among those that
order the sweep alike, so that 64 iterations of 96 blocks come to what they took."""
_BARRIER_SECONDS = 2e-7
"""In which the warps of a block wait for each other, in each iteration; chosen in the same way."""
_SMALL_DOT_EFFICIENCY = 0.62
"""What of the matrix units' rate smaller products come to at best; assumed, for Hopper."""
_OVERLAP = 4.0
"""The power in which what bounds the time is added up; fitted."""


def registers(asked: BlockDemand, warps: int) -> int:
    """Registers of a thread, where a block has so many `warps`."""
    return _BASE_REGISTERS_PER_THREAD + asked.registers(warps)


def shared_bytes(asked: BlockDemand, stages: int) -> int:
    """Shared memory of a block; a tall dot still reads its operands when the next ones are
    loaded.
    """
    tall = any(product.rows >= TALL_DOT_ROWS for product in asked.products)
    # With n stages, n - 1 iterations are on their way and one is worked on. Smaller dots copy their
    # operands to registers first, so that buffer is free again.
    copies = stages - (not tall) if asked.steps > 1 else 1
    return asked.shared_bytes + asked.streamed_bytes * max(1, copies)


def widest_shared_bytes(asked: BlockDemand, stages: int) -> int:
    """Of a block, where Triton takes more than the operands of dots.

    What is loaded ahead and read by more than its dot, as keys that are normalised are, has a copy
    for every stage, and goes through shared memory once more as float32 to reach the dot. Five of
    360 tilings asked an H100 for that much, and all had such an operand of 256 columns.
    """
    copies = 1 if asked.steps > 1 else 0
    return shared_bytes(asked, stages) + copies * asked.reread_bytes + 2 * asked.reread_bytes


@dataclass(frozen=True)
class TilingFigures:
    """What the time of a kernel depends on: some numbers, wherever they are from."""

    blocks: int
    steps: int
    loops: int
    memory_bytes: int
    loaded_bytes: int
    streamed_bytes: int
    step_bytes: int
    shared_bytes: int
    """Of a block."""
    registers: int
    """Of a thread, more than it may have where some are spilled."""
    warps: int
    stages: int
    dot_steps: int
    """Matrix instructions of one block that wait for each other."""
    arithmetic_seconds: float
    """Of all blocks, by the data sheet's rates, if multiprocessors did the same and were busy."""
    device: Device

    @cached_property
    def resident(self) -> int:
        """The blocks that a multiprocessor has at one time."""
        device, threads = self.device, self.warps * _THREADS_PER_WARP
        room = device.unit_shared_bytes // (self.shared_bytes + device.block_reserved_bytes or 1)
        registers = _REGISTERS_PER_MULTIPROCESSOR // (
            threads * min(self.registers, MOST_REGISTERS_PER_THREAD)
        )
        most = min(device.unit_blocks, device.unit_threads // threads)
        return max(1, min(self.turns, room, registers, most))

    @property
    def turns(self) -> int:
        """The blocks of the multiprocessor that has most."""
        return -(-self.blocks // self.device.units)

    @property
    def seconds(self) -> float:
        bounds = (self.memory, self.stream, self.arithmetic, self.chain)
        longest = max(bounds)
        overlapped: float = sum((bound / longest) ** _OVERLAP for bound in bounds) ** (1 / _OVERLAP)
        return self.device.launch_seconds + _DRAM_LATENCY_SECONDS + longest * overlapped

    @property
    def memory(self) -> float:
        """From the device's memory."""
        return self.memory_bytes / (self.device.bytes_per_second * _DRAM_EFFICIENCY)

    @property
    def stream(self) -> float:
        """Through the busiest multiprocessor: what is on its way limits how much comes."""
        loaded = self.loaded_bytes / self.blocks * self.turns
        coming = self.resident * self.step_bytes * self._copies / _DRAM_LATENCY_SECONDS
        return loaded / max(1.0, min(_MULTIPROCESSOR_BYTES_PER_SECOND, coming))

    @property
    def arithmetic(self) -> float:
        """Matrix units and the others, with what warps issue and what they spill."""
        busy = min(1.0, self.warps * self.resident / WARPGROUP_WARPS)
        even = self._uneven * self.arithmetic_seconds / busy
        if not self.dot_steps:
            return even
        steps = self.turns * self.warps
        spilled = max(0, self.registers - MOST_REGISTERS_PER_THREAD)
        return (
            even / _ARITHMETIC_EFFICIENCY
            + steps * self.dot_steps * _DOT_ISSUE_SECONDS
            + steps * self._iterations * spilled * _SPILL_SECONDS
        )

    @property
    def chain(self) -> float:
        """Iterations and dots of a block in a row, and memory where nothing is loaded ahead."""
        wait = _BARRIER_SECONDS
        if self._copies == 1:
            wait = _DRAM_LATENCY_SECONDS + self.step_bytes / _MULTIPROCESSOR_BYTES_PER_SECOND
        waits = self._iterations * wait + self.dot_steps * _DOT_LATENCY_SECONDS
        return self.turns / self.resident * waits

    @property
    def _copies(self) -> int:
        """So many iterations' bytes are on their way."""
        return max(1, self.stages - 1) if self.streamed_bytes else 1

    @property
    def _iterations(self) -> int:
        return self.loops * self.steps if self.loops else 1

    @property
    def _uneven(self) -> float:
        """How much more the busiest multiprocessor does than it would if all did the same."""
        return self.turns * self.device.units / self.blocks


@dataclass(frozen=True)
class TilingPrediction:
    """The prediction of a block's demand with so many warps, and so many stages of the loop."""

    asked: BlockDemand
    warps: int
    stages: int
    device: Device

    @property
    def registers(self) -> int:
        """Registers of a thread."""
        return registers(self.asked, self.warps)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a block."""
        return shared_bytes(self.asked, self.stages)

    @property
    def resident(self) -> int:
        """The blocks that a multiprocessor has at one time."""
        return self.figures.resident

    @property
    def seconds(self) -> float:
        """How long it takes, launched alone."""
        return self.figures.seconds

    @cached_property
    def figures(self) -> TilingFigures:
        asked = self.asked
        return TilingFigures(
            blocks=asked.blocks,
            steps=asked.steps,
            loops=asked.loops,
            memory_bytes=asked.memory_bytes,
            loaded_bytes=asked.loaded_bytes,
            streamed_bytes=asked.streamed_bytes,
            step_bytes=asked.step_bytes,
            shared_bytes=self.shared_bytes,
            registers=self.registers,
            warps=self.warps,
            stages=self.stages,
            dot_steps=sum(math.ceil(product.summed / _DOT_DEPTH) for product in asked.products),
            arithmetic_seconds=self._arithmetic,
            device=self.device,
        )

    @property
    def _arithmetic(self) -> float:
        """Matrix units and the others, which take turns where a unit has few warps."""
        rate = self.device.rate(DType.F32)
        other_seconds = (
            self.asked.operations / rate + self.asked.special * _SPECIAL_RESULTS_PER_CYCLE / rate
        )
        products = sum(
            product.operations / (self.device.rate(product.dtype) * self._share(product))
            for product in self.asked.products
        )
        return products + other_seconds

    def _share(self, product: DotProduct) -> float:
        """The share of the matrix units' rate that `product` reaches."""
        tall = product.rows >= TALL_DOT_ROWS and self.warps % WARPGROUP_WARPS == 0
        return (
            (1.0 if tall else _SMALL_DOT_EFFICIENCY)
            * self.asked.warping(self.warps).of(product.node)
            / self.warps
        )
