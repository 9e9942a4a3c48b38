"""What it costs to make one candidate of a kernel program, in CPU seconds of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from kernelrows import Row
from msgspec import Struct

from aiosearch.codegen.cpu.choices import choices, different
from aiosearch.codegen.cpu.printer import native
from aiosearch.codegen.cpu.schedule import Schedule
from aiosearch.codegen.ir import Module
from aiosearch.codegen.lowering import lower
from aiosearch.codegen.native.compiling import compiled
from aiosearch.codegen.native.machine import host
from aiosearch.pool import usable_cores
from aiosearch.tensor import Program

T = TypeVar("T")

LIMIT = 0.3
"""Of CPU seconds for a candidate."""


class Cost(Struct, frozen=True):
    """Of one candidate: printed, and compiled to object code; nothing is remembered."""

    printing: float
    compiling: float

    @property
    def seconds(self) -> float:
        return self.printing + self.compiling


class Costs(Struct, frozen=True):
    """Of all candidates of a program, and what comes once before them."""

    row: Row
    lowering: float
    choosing: float
    each: tuple[Cost, ...]


def costs(row: Row, program: Program, most: int) -> Costs:
    """Makes so many candidates at most, best predicted first."""
    module, lowering = _taken(lambda: lower(program))
    packable = [module.inputs[at].name for at in row.constant]
    options, choosing = _taken(lambda: _options(module, packable, most))
    each = tuple(_cost(module, one) for one in _schedules(module, options))
    return Costs(row, lowering, choosing, each)


def _options(module: Module, packable: Sequence[str], most: int) -> list[list[Schedule]]:
    return [
        different(choices(kernel, host(), usable_cores(), packable), most)
        for kernel in module.kernels
    ]


def _schedules(
    module: Module, options: Sequence[Sequence[Schedule]]
) -> Iterator[Mapping[str, Schedule]]:
    for turn in range(max(map(len, options), default=0)):
        yield {
            kernel.name: own[min(turn, len(own) - 1)]
            for kernel, own in zip(module.kernels, options, strict=True)
        }


def _cost(module: Module, schedules: Mapping[str, Schedule]) -> Cost:
    printed, printing = _taken(lambda: native(module, schedules, host()))
    _, compiling = _taken(lambda: compiled(printed, host()))
    return Cost(printing, compiling)


def _taken(work: Callable[[], T]) -> tuple[T, float]:
    """What comes of it, and its CPU seconds."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started
