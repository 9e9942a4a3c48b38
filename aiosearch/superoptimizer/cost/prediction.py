"""`predict`: the time that a program should take on a device, kernel by kernel.

Problem: thousands of programs are compared before any is run, each with thousands of choices of its
sizes. So the model is arithmetic on arrays (`times`), and the same arithmetic on numbers explains a
single program (`predict`).

Each kernel takes its launch, and the longest of three things: its traffic with the device's memory,
its traffic with the last-level cache, its arithmetic, each at the device's best. Kernels follow
each other, and hand on what they computed through the device's memory. Worked example: a kernel on
an A100 that moves 50,659,328 bytes at 2.039e12 bytes a second and is bound by nothing else takes
1e-6 s + 2.485e-5 s.

Three rules add to that:

- A tensor that blocks read more than once costs the device's memory one reading where it fits into
  the last-level cache, else every reading. The cache's traffic is all that blocks load and store.
- Blocks are dealt out to units, and arithmetic takes as long as the unit that has most of them.
  Traffic is for all: it is slower only where there are fewer blocks than units, each of which draws
  its share at most.
- On a GPU a block waits for what it loads. Traffic and arithmetic overlap where a unit holds two
  blocks or more, as far as shared memory, threads and the grid allow; else they add up. A CPU's
  core loads ahead.

Units: seconds, bytes, and operations of the tensor language; a device's figures are data sheets'
(`Device.sources`), none is fitted.
`benchmarks/bound.py` prints predictions.

Invariant: no choice of sizes is cheaper than `KernelLoad.seconds(inf)`, which `fill` relies on.

See docs/why/superoptimizer.md, "Numbers, best first".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ...devices import Device, DeviceKind
from ...tensor import Dim, Kernel, Program
from ...tensor.sizes import product
from .shared_memory import shared_bytes
from .size_values import Figures, number
from .work import KernelWork, TensorRead, works

Value: TypeAlias = Callable[[Dim], Figures]
"""What a size comes to: a number, or an array with one number for each choice of sizes."""


@dataclass(frozen=True)
class KernelLoad:
    """What a kernel asks of a device: bytes, seconds of arithmetic and blocks."""

    device: Device
    device_bytes: Figures
    cache_bytes: Figures
    busy_seconds: Figures
    """Seconds of arithmetic, with all units at work."""
    blocks: Figures | None
    """It is None for a kernel of a library, which is assumed to use the whole device."""

    def seconds(self, resident: Figures) -> Figures:
        """How long the kernel takes where a unit has room for `resident` blocks; infinitely long
        where for none.
        """
        device = self.device
        moving = np.maximum(
            self.device_bytes / device.bytes_per_second,
            self.cache_bytes / device.cache_bytes_per_second,
        )
        if self.blocks is None:
            return device.launch_seconds + np.maximum(moving, self.busy_seconds)
        # The unit that has most blocks finishes last: 109 blocks on 108 units take as long as 216.
        most = np.ceil(self.blocks / device.units)
        # A unit draws at most its share of the bandwidth, so half as many blocks as units halve it.
        moving = moving * np.maximum(1, device.units / self.blocks)
        # `busy_seconds` is for an even load; this is the load of the fullest unit over the average
        # one.
        busy = self.busy_seconds * (most * device.units / self.blocks)
        # While one block waits for its loads another computes: two on a unit are enough in this
        # model.
        overlaps = (np.minimum(resident, most) >= 2) | (device.kind is DeviceKind.CPU)
        body = np.where(overlaps, np.maximum(moving, busy), moving + busy)
        return np.where(np.asarray(resident) >= 1, device.launch_seconds + body, np.inf)


def times(work: KernelWork, device: Device, value: Value) -> KernelLoad:
    """What a kernel asks of a device, with `value` giving numbers for its sizes."""
    written = value(work.written)
    return KernelLoad(
        device=device,
        device_bytes=sum((_fetched(read, device, value) for read in work.reads), written),
        cache_bytes=sum((value(read.streamed) for read in work.reads), written),
        busy_seconds=sum(value(count) / device.rate(dtype) for dtype, count in work.operations),
        blocks=None if work.kernel is None else value(work.blocks),
    )


def _fetched(read: TensorRead, device: Device, value: Value) -> Figures:
    """The bytes that come from the device's memory: each once where the cache has room for all of
    the tensor.
    """
    distinct = value(read.distinct)
    again = np.maximum(distinct, value(read.streamed))
    # All or nothing: a tensor that is larger than the cache is taken to be evicted before it is
    # read again.
    return np.where(distinct <= device.cache_bytes, distinct, again)


@dataclass(frozen=True)
class BlockOccupancy:
    """How the blocks of a custom kernel occupy a device."""

    count: int
    shared_bytes: int
    """The shared memory that one block needs."""
    resident: int
    """How many blocks a unit has room for; none where a block needs more memory than there is."""
    waves: int
    """How often the device is filled with blocks."""
    occupancy: float
    """The part of a unit's threads that are in use while the kernel is at its fullest."""


@dataclass(frozen=True)
class KernelPrediction:
    """What one kernel should cost."""

    name: str
    seconds: float
    device_bytes: int
    cache_bytes: int
    operations: int
    blocks: BlockOccupancy | None
    """It is None for a kernel of a library, which chooses its blocks by itself."""


@dataclass(frozen=True)
class Prediction:
    """What a program should cost; infinitely many seconds where a block does not fit."""

    seconds: float
    device_bytes: int
    cache_bytes: int
    operations: int
    launches: int
    kernels: tuple[KernelPrediction, ...]

    @property
    def rank(self) -> tuple[float, float]:
        """The key by which programs are ordered, see `rank`."""
        return rank(self.seconds, self.cache_bytes)


def rank(seconds: float, cache_bytes: float) -> tuple[float, float]:
    """What is better comes first: of what is as fast, to a picosecond, that which moves less."""
    # Sums in another order differ in their last bits; rounding to 1e-12 s keeps such ties ties.
    return round(seconds, 12), cache_bytes


def predict(program: Program, device: Device) -> Prediction:
    """What a program of known sizes should cost on `device`."""
    kernels = tuple(_kernel(work, device) for work in works(program))
    return Prediction(
        seconds=math.fsum(kernel.seconds for kernel in kernels),
        device_bytes=sum(kernel.device_bytes for kernel in kernels),
        cache_bytes=sum(kernel.cache_bytes for kernel in kernels),
        operations=sum(kernel.operations for kernel in kernels),
        launches=len(kernels),
        kernels=kernels,
    )


def _kernel(work: KernelWork, device: Device) -> KernelPrediction:
    load = times(work, device, number)
    blocks = None if work.kernel is None else _blocks(work.kernel, device)
    resident = math.inf if blocks is None else blocks.resident
    return KernelPrediction(
        name=work.name,
        seconds=float(load.seconds(resident)),
        device_bytes=int(load.device_bytes),
        cache_bytes=int(load.cache_bytes),
        operations=sum(number(count) for _, count in work.operations),
        blocks=blocks,
    )


def _blocks(kernel: Kernel, device: Device) -> BlockOccupancy:
    count = number(product(kernel.grid))
    shared = shared_bytes(kernel)
    resident = device.resident(shared)
    at_once = min(resident, math.ceil(count / device.units))
    return BlockOccupancy(
        count=count,
        shared_bytes=shared,
        resident=resident,
        waves=math.ceil(count / (device.units * resident)) if resident else 0,
        occupancy=at_once * device.block_threads / device.unit_threads,
    )
