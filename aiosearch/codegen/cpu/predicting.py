"""How long a kernel should take by a schedule: a rough sum, good enough to order trials by."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from ..ir import Apply, Fold, Index, Kernel, Load, Operation, Stage, indices, walk
from ..native.machine import Machine
from .memory import STORED
from .passes import passes
from .roles import Roles, halves, work
from .schedule import Schedule

_CLOCK = 4e9
_MEMORY = 30e9
"""Bytes a second that one thread reads of memory, and of the second cache."""
_NEAR = 100e9
_OVERLAP = 3
"""The slower of arithmetic and memory hides the other, but not all of it."""
_TURN = 6.0
"""Cycles that a block of registers costs before it begins."""
_LONG = {Operation.EXP, Operation.LOG, Operation.TANH, Operation.ERF, Operation.SIN, Operation.COS}
_CYCLES = {Operation.DIVIDE: 8.0, Operation.SQRT: 8.0, Operation.POW: 40.0} | dict.fromkeys(
    _LONG, 10.0
)


def predicted(
    kernel: Kernel, own: Roles, schedule: Schedule, machine: Machine, threads: int
) -> float:
    """Seconds; what counts is which of two is less."""
    blocks = _tiles(own.blocked, schedule)
    if not blocks:
        return 0.0
    turns = _turns(kernel, schedule)
    cycles = sum(
        turns[stage] * _times(stage, own, schedule) * _cycles(stage, own, schedule, machine)
        for stage in kernel.stages
    )
    cycles += sum(
        math.prod(one.shape) * _repeats(one.name, kernel, own, schedule) / 8
        for one in kernel.inputs
        if one.name in (*schedule.staged, *schedule.panels)
    )
    worked, read = cycles / _CLOCK, _read(kernel, own, schedule) / _MEMORY
    shared = -(-blocks // threads) / blocks
    return float(shared * (worked**_OVERLAP + read**_OVERLAP) ** (1 / _OVERLAP))


def _turns(kernel: Kernel, schedule: Schedule) -> Counter[Stage]:
    """In how many passes along the serial index a stage runs."""
    serial = next((one for one in kernel.indices if one.name == schedule.serial), None)
    found: Counter[Stage] = Counter()
    for one in passes(kernel, serial):
        found.update([*one.before, *one.along])
    return found


def _times(stage: Stage, own: Roles, schedule: Schedule) -> int:
    """How many blocks do the same."""
    used = {*stage.free, *stage.folded}
    return _tiles([one for one in own.blocked if one not in used], schedule)


def _cycles(stage: Stage, own: Roles, schedule: Schedule, machine: Machine) -> float:
    lanes, shape = machine.width // 4, own.shapes[stage]
    if stage.fold is Fold.NONE or shape.row is None or shape.along in stage.folded:
        loads = len(stage.loads) / 2
        applied = [one for one in walk(stage.value) if isinstance(one, Apply)]
        steps = sum(_CYCLES.get(one.operation, 0.5) for one in applied)
        along = shape.along.size if shape.along is not None else 1
        return work(stage) / min(lanes, along) * max(loads, steps, 1.0)
    return _summed(stage, own, schedule, machine)


def _summed(stage: Stage, own: Roles, schedule: Schedule, machine: Machine) -> float:
    """Of sums that stay in registers while rows share what the lanes read."""
    shape, lanes = own.shapes[stage], machine.width // 4
    assert shape.row is not None
    tile = schedule.tile(shape.row)
    rows, vectors = min(schedule.wishes.rows or 4, tile), schedule.wishes.vectors or 2
    laid = (*schedule.layouts, *schedule.panels)
    packed = any(load.buffer.name in laid for load in stage.loads)
    dots = machine.bf16_dot and halves(stage)
    mixing = 2.0 * vectors if dots and not packed else 0.0
    step = max(rows * vectors / 2, (rows + vectors + mixing) / 2, 4.0)
    depth = schedule.tile(shape.inner) if shape.inner is not None else 1
    turns = max(depth / (2 if dots else 1), 1)
    full = -(-tile // rows) * rows / tile
    begun = (rows * vectors + _TURN) / (turns * step)
    steps = work(stage) / (rows * vectors * lanes) / (2 if dots else 1)
    return steps * full * step * (1 + begun)


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
    loads = [load for stage in kernel.stages for load in stage.loads if load.buffer.name == name]
    used = {one for load in loads for one in _used(load)}
    return _tiles([one for one in own.blocked if one not in used], schedule)


def _used(load: Load) -> set[Index]:
    return {one for position in load.at for one in indices(position)}


def _tiles(some: Iterable[Index], schedule: Schedule) -> int:
    return math.prod(-(-one.size // schedule.tile(one)) for one in some)
