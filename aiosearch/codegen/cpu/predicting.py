"""How long a kernel should take by a schedule: a rough sum, good enough to order trials by."""

from __future__ import annotations

import math

from ..ir import Index, Kernel, Load, indices
from ..native.machine import Machine
from .memory import STORED
from .roles import Roles, work
from .schedule import Schedule

_CLOCK = 4e9
_MEMORY = 30e9
"""Bytes a second that one thread reads of memory, and of the second cache."""
_NEAR = 100e9
_OVERLAP = 3
"""The slower of arithmetic and memory hides the other, but not all of it."""
_TURN = 6.0
"""Cycles that a tile's stage costs before it begins."""


def predicted(
    kernel: Kernel, own: Roles, schedule: Schedule, machine: Machine, threads: int
) -> float:
    """Seconds; what counts is which of two is less."""
    blocks = math.prod(-(-one.size // schedule.tile(one)) for one in own.blocked)
    shared = -(-blocks // threads) / blocks if blocks else 0
    cycles = _main(own, schedule, machine) + _rest(kernel, own, schedule, machine, blocks)
    worked, read = cycles / _CLOCK, _read(kernel, own, schedule) / _MEMORY
    return float(shared * (worked**_OVERLAP + read**_OVERLAP) ** (1 / _OVERLAP))


def _main(own: Roles, schedule: Schedule, machine: Machine) -> float:
    """The cycles of the main stage, with rows and sums that come in and go out of registers."""
    lanes = machine.width // 4
    rows, vectors = schedule.wishes.rows or 4, schedule.wishes.vectors or 2
    step = max(rows * vectors / 2, (rows + vectors) / 2, 4.0)
    tile = schedule.tile(own.row) if own.row is not None else 1
    full = -(-tile // rows) * rows / tile
    inner = own.shape.inner
    depth = schedule.tile(inner) if inner is not None else 1
    packed = not schedule.layouts and _halves(own)
    turns = own.work / (rows * vectors * lanes) * full / (2 if _halves(own) else 1)
    overhead = 1 + (rows * vectors + _TURN) / (max(depth, 1) * step / (2 if _halves(own) else 1))
    return turns * step * overhead * (1 + packed * 2 / rows)


def _halves(own: Roles) -> bool:
    return all(STORED[load.buffer.dtype][1] == 2 for load in own.stage.loads)


def _rest(kernel: Kernel, own: Roles, schedule: Schedule, machine: Machine, blocks: int) -> float:
    """The other stages, for each block that repeats them, and copies of tiles."""
    lanes, found = machine.width // 4, 0.0
    for stage in kernel.stages:
        if stage is own.stage:
            continue
        missing = [one for one in own.blocked if one not in stage.free]
        times = math.prod(-(-one.size // schedule.tile(one)) for one in missing)
        found += work(stage) * times / lanes * 3
    for buffer in kernel.inputs:
        if buffer.name in schedule.staged:
            found += math.prod(buffer.shape) * _repeats(buffer.name, kernel, own, schedule) / 8
    return found


def _read(kernel: Kernel, own: Roles, schedule: Schedule) -> float:
    """Bytes from memory; what is read again is read of a cache, and counts for less."""
    found = 0.0
    for buffer in kernel.inputs:
        size = math.prod(buffer.shape) * STORED[buffer.dtype][1]
        again = _repeats(buffer.name, kernel, own, schedule) - 1
        found += size * (1 + again * _MEMORY / _NEAR)
        if buffer.name not in schedule.layouts and _strides(buffer.name, own):
            found += size * 0.3
    return found + sum(math.prod(one.shape) * STORED[one.dtype][1] for one in kernel.outputs)


def _strides(name: str, own: Roles) -> bool:
    """Whether the main stage goes down the columns of an input, a row at a time."""
    return any(load.buffer.name == name and own.along in _used(load) for load in own.stage.loads)


def _repeats(name: str, kernel: Kernel, own: Roles, schedule: Schedule) -> int:
    """How many blocks read the same of an input."""
    used: set[Index] = set()
    for stage in kernel.stages:
        for load in stage.loads:
            if load.buffer.name == name:
                used |= _used(load)
    missing = [one for one in own.blocked if one not in used]
    return math.prod(-(-one.size // schedule.tile(one)) for one in missing)


def _used(load: Load) -> set[Index]:
    return {one for position in load.at for one in indices(position)}
