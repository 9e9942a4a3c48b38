"""The least time that a tiled kernel takes on a GPU.

Bytes are counted once from the device's memory, and for each block from its cache. Both come as
fast as the blocks that are there at one time ask for them; the multiprocessor that has most blocks
is the last to end.
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
"""Of four bytes, that a thread may have."""
_REGISTERS_PER_MULTIPROCESSOR = 65536
"""Of a multiprocessor (CUDA C++ Programming Guide, technical specifications)."""
_BASE_REGISTERS_PER_THREAD = 40
"""Of a thread's registers, those for places, masks and what the compiler likes to keep."""
_THREADS_PER_WARP = 32
_SPECIAL_RESULTS_PER_CYCLE = 16
"""A multiprocessor has 16 units for these, of 128 that multiply and add (CUDA C++ Programming
Guide, throughput of native arithmetic instructions), which count twice."""

_DRAM_LATENCY_SECONDS = 6e-7
"""Seconds from asking the device's memory to having it; assumed."""
_DOT_LATENCY_SECONDS = 2e-8
"""Seconds of one matrix instruction, which the next one on the same sums waits for; assumed."""
_DOT_DEPTH = 16
"""What it sums over."""
_BARRIER_SECONDS = 1e-7
"""Seconds in which the warps of a block wait for each other, in each iteration; assumed."""
_SMALL_DOT_EFFICIENCY = 0.62
"""What of the matrix units' rate smaller products come to at best; assumed, for Hopper."""


def registers(asked: BlockDemand, warps: int) -> int:
    """Of a thread, where a block has so many warps."""
    return _BASE_REGISTERS_PER_THREAD + asked.registers(warps)


def shared_bytes(asked: BlockDemand, stages: int) -> int:
    """Of a block; a tall dot still reads what it was given when the next one is loaded."""
    tall = any(one.rows >= TALL_DOT_ROWS for one in asked.products)
    copies = stages - (not tall) if asked.steps > 1 else 1
    return asked.shared_bytes + asked.streamed_bytes * max(1, copies)


@dataclass(frozen=True)
class TilingPrediction:
    """Of a block's demand with so many warps, and so many iterations' operands on their way."""

    asked: BlockDemand
    warps: int
    stages: int
    device: Device

    @property
    def registers(self) -> int:
        """Of a thread."""
        return registers(self.asked, self.warps)

    @property
    def shared_bytes(self) -> int:
        """Of a block."""
        return shared_bytes(self.asked, self.stages)

    @cached_property
    def resident(self) -> int:
        """The blocks that a multiprocessor has at one time."""
        device, threads = self.device, self.warps * _THREADS_PER_WARP
        room = device.unit_shared_bytes // (self.shared_bytes + device.block_reserved_bytes or 1)
        registers = _REGISTERS_PER_MULTIPROCESSOR // (
            threads * min(self.registers, MOST_REGISTERS_PER_THREAD)
        )
        most = min(device.unit_blocks, device.unit_threads // threads)
        return max(1, min(self._turns, room, registers, most))

    @property
    def _turns(self) -> int:
        """The blocks of the multiprocessor that has most."""
        return -(-self.asked.blocks // self.device.units)

    @property
    def seconds(self) -> float:
        """How long it takes at best."""
        begun = self.device.launch_seconds + _DRAM_LATENCY_SECONDS * (1 + self.asked.loops)
        return begun + max(self._memory, self._cache, self._arithmetic, self._chain)

    @property
    def _uneven(self) -> float:
        """How much more the busiest multiprocessor does than it would if all did the same."""
        return self._turns * self.device.units / self.asked.blocks

    @property
    def _memory(self) -> float:
        """From the device's memory: what is on its way limits how much comes."""
        ahead = self.stages - 1 if self.asked.streamed_bytes else 1
        blocks = min(self.asked.blocks, self.resident * self.device.units)
        coming = blocks * self.asked.step_bytes * ahead / _DRAM_LATENCY_SECONDS
        return self.asked.memory_bytes / min(self.device.bytes_per_second, max(1.0, coming))

    @property
    def _cache(self) -> float:
        return self._uneven * self.asked.loaded_bytes / self.device.cache_bytes_per_second

    @property
    def _arithmetic(self) -> float:
        """Matrix units and the others, which take turns where a unit has few warps."""
        busy = min(1.0, self.warps * self.resident / WARPGROUP_WARPS)
        rate = self.device.rate(DType.F32)
        others = (
            self.asked.operations / rate + self.asked.special * _SPECIAL_RESULTS_PER_CYCLE / rate
        )
        products = sum(
            one.operations / (self.device.rate(one.dtype) * self._share(one))
            for one in self.asked.products
        )
        return self._uneven * (products + others) / busy

    def _share(self, product: DotProduct) -> float:
        """What of the matrix units' rate a product reaches."""
        tall = product.rows >= TALL_DOT_ROWS and self.warps % WARPGROUP_WARPS == 0
        return (
            (1.0 if tall else _SMALL_DOT_EFFICIENCY)
            * self.asked.warping(self.warps).of(product.node)
            / self.warps
        )

    @property
    def _chain(self) -> float:
        """What a block does one after the other; only operands of dots are loaded ahead."""
        each = _BARRIER_SECONDS if self.asked.streamed_bytes else _DRAM_LATENCY_SECONDS
        waits = self.asked.loops * self.asked.steps * each
        dots = (
            sum(math.ceil(one.summed / _DOT_DEPTH) for one in self.asked.products)
            * _DOT_LATENCY_SECONDS
        )
        return self._turns / self.resident * (waits + dots)
