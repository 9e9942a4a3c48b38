"""The least time that a tiled kernel takes on a GPU.

Problem: rank hundreds of tilings without a GPU. The model is a lower bound of what each resource
takes, of which the slowest decides; it is meant to order tilings, not to be exact.

Bytes are counted once from the device's memory, and for each block from its cache. Both come as
fast as the blocks that are there at one time ask for them; the multiprocessor that has most blocks
is the last to end.

Worked example: a product of bf16[64, 4096] by bf16[4096, 4096] on an H200, in tiles of 32 x 64 x 64
with 4 warps and 3 stages: 88 registers of a thread, 24,576 bytes of shared memory, one block
resident on each multiprocessor, 14.6 microseconds.

Units are seconds and bytes. Figures of the device come from `Device`; those marked as assumed below
were not measured. `benchmarks/gpuplans.py` prints predictions beside the bound of the device and,
where a compiler is installed, registers as ptxas counts them.

Invariant: `seconds` depends on the tiles only through `BlockDemand`, which is counted once for all
numbers of warps and stages.

See docs/why/kernels.md, "The same kernel for a GPU".
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
"""Of a thread's registers, those for positions, masks and what the compiler likes to hold."""
_THREADS_PER_WARP = 32
_SPECIAL_RESULTS_PER_CYCLE = 16
"""A multiprocessor has 16 units for these, of 128 that multiply and add (CUDA C++ Programming
Guide, throughput of native arithmetic instructions), which count twice."""

_DRAM_LATENCY_SECONDS = 6e-7
"""Seconds from asking the device's memory to having it; assumed."""
_DOT_LATENCY_SECONDS = 2e-8
"""Seconds of one matrix instruction, which the next one on the same sums waits for; assumed."""
_DOT_DEPTH = 16
"""What one matrix instruction sums over."""
_BARRIER_SECONDS = 1e-7
"""Seconds in which the warps of a block wait for each other, in each iteration; assumed."""
_SMALL_DOT_EFFICIENCY = 0.62
"""What of the matrix units' rate smaller products come to at best; assumed, for Hopper."""


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

    @cached_property
    def resident(self) -> int:
        """The blocks that a multiprocessor has at one time."""
        device, threads = self.device, self.warps * _THREADS_PER_WARP
        room = device.unit_shared_bytes // (self.shared_bytes + device.block_reserved_bytes or 1)
        registers = _REGISTERS_PER_MULTIPROCESSOR // (
            threads * min(self.registers, MOST_REGISTERS_PER_THREAD)
        )
        # Four limits of occupancy: shared memory, registers, blocks and threads; and there are no
        # more than a multiprocessor's share of all blocks.
        most = min(device.unit_blocks, device.unit_threads // threads)
        return max(1, min(self._turns, room, registers, most))

    @property
    def _turns(self) -> int:
        """The blocks of the multiprocessor that has most."""
        return -(-self.asked.blocks // self.device.units)

    @property
    def seconds(self) -> float:
        """How long the kernel takes at best."""
        # The first load, and the first load of each loop, are waited for by everyone.
        begun = self.device.launch_seconds + _DRAM_LATENCY_SECONDS * (1 + self.asked.loops)
        return begun + max(self._memory, self._cache, self._arithmetic, self._chain)

    @property
    def _uneven(self) -> float:
        """How much more the busiest multiprocessor does than it would if all did the same."""
        return self._turns * self.device.units / self.asked.blocks

    @property
    def _memory(self) -> float:
        """Seconds of traffic with the device's memory: what is on its way limits how much comes."""
        ahead = self.stages - 1 if self.asked.streamed_bytes else 1
        blocks = min(self.asked.blocks, self.resident * self.device.units)
        # Little's law: bytes in flight divided by the latency are the throughput that a kernel can
        # draw.
        coming = blocks * self.asked.step_bytes * ahead / _DRAM_LATENCY_SECONDS
        return self.asked.memory_bytes / min(self.device.bytes_per_second, max(1.0, coming))

    @property
    def _cache(self) -> float:
        return self._uneven * self.asked.loaded_bytes / self.device.cache_bytes_per_second

    @property
    def _arithmetic(self) -> float:
        """Seconds of matrix units and the others, which take turns where a multiprocessor has few
        warps.
        """
        # A multiprocessor has four schedulers: with fewer than four warps some of them have nothing
        # to issue.
        busy = min(1.0, self.warps * self.resident / WARPGROUP_WARPS)
        rate = self.device.rate(DType.F32)
        other_seconds = (
            self.asked.operations / rate + self.asked.special * _SPECIAL_RESULTS_PER_CYCLE / rate
        )
        products = sum(
            product.operations / (self.device.rate(product.dtype) * self._share(product))
            for product in self.asked.products
        )
        return self._uneven * (products + other_seconds) / busy

    def _share(self, product: DotProduct) -> float:
        """The share of the matrix units' rate that `product` reaches."""
        tall = product.rows >= TALL_DOT_ROWS and self.warps % WARPGROUP_WARPS == 0
        return (
            (1.0 if tall else _SMALL_DOT_EFFICIENCY)
            * self.asked.warping(self.warps).of(product.node)
            / self.warps
        )

    @property
    def _chain(self) -> float:
        """Seconds of what a block does one after the other; only operands of dots are loaded
        ahead.
        """
        # Without operands of dots nothing is loaded ahead, and each iteration waits for memory.
        wait = _BARRIER_SECONDS if self.asked.streamed_bytes else _DRAM_LATENCY_SECONDS
        waits = self.asked.loops * self.asked.steps * wait
        dots = (
            sum(math.ceil(product.summed / _DOT_DEPTH) for product in self.asked.products)
            * _DOT_LATENCY_SECONDS
        )
        return self._turns / self.resident * (waits + dots)
