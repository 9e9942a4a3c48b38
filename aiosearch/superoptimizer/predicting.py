"""How long a program should take on a device, by a simple model.

Each kernel takes its launch, and the longest of three things: its traffic with the device's memory,
its traffic with the last-level cache, its arithmetic, each at the device's best. Kernels follow
each other, and hand on what they computed through the device's memory. Three rules make more of it:

- A tensor that blocks read more than once costs the device's memory one reading where it fits into
  the last-level cache, else every reading. The cache's traffic is all that blocks load and store.
- Blocks are dealt out to units, and arithmetic takes as long as the unit that has most of them.
  Traffic is for all: it is slower only where there are fewer blocks than units, each of which
  draws its share at most.
- On a GPU a block waits for what it loads. Traffic and arithmetic overlap where a unit holds two
  blocks or more, as far as shared memory, threads and the grid allow; else they add up. A CPU's
  core loads ahead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..devices import Device
from ..tensor import Kernel, Program
from ..tensor.sizes import product
from .memory import shared_bytes
from .timing import times
from .values import number
from .work import Work, works


@dataclass(frozen=True)
class Blocks:
    """How the blocks of a custom kernel lie on a device."""

    count: int
    shared_bytes: int
    """What one needs."""
    resident: int
    """How many a unit has room for; none where one needs more than there is."""
    waves: int
    """How often the device is filled."""
    occupancy: float
    """The part of a unit's threads that are there, while the kernel is at its fullest."""


@dataclass(frozen=True)
class KernelPrediction:
    """What one kernel should cost."""

    name: str
    seconds: float
    device_bytes: int
    cache_bytes: int
    operations: int
    blocks: Blocks | None
    """None for a library's kernel, which chooses its own."""


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
        return rank(self.seconds, self.cache_bytes)


def rank(seconds: float, cache_bytes: float) -> tuple[float, float]:
    """What is better comes first: of what is as fast, to a picosecond, that which moves less."""
    return round(seconds, 12), cache_bytes


def predict(program: Program, device: Device) -> Prediction:
    """What a program of known sizes should cost."""
    kernels = tuple(_kernel(work, device) for work in works(program))
    return Prediction(
        seconds=math.fsum(kernel.seconds for kernel in kernels),
        device_bytes=sum(kernel.device_bytes for kernel in kernels),
        cache_bytes=sum(kernel.cache_bytes for kernel in kernels),
        operations=sum(kernel.operations for kernel in kernels),
        launches=len(kernels),
        kernels=kernels,
    )


def _kernel(work: Work, device: Device) -> KernelPrediction:
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


def _blocks(kernel: Kernel, device: Device) -> Blocks:
    count = number(product(kernel.grid))
    shared = shared_bytes(kernel)
    resident = device.resident(shared)
    at_once = min(resident, math.ceil(count / device.units))
    return Blocks(
        count=count,
        shared_bytes=shared,
        resident=resident,
        waves=math.ceil(count / (device.units * resident)) if resident else 0,
        occupancy=at_once * device.block_threads / device.unit_threads,
    )
