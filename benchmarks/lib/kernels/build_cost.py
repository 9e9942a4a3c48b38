"""What it costs to make one candidate of a kernel program, in CPU seconds of this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lib.kernels.rows import Row
from msgspec import Struct

from aiosearch.codegen.native.compiler import compile_program
from aiosearch.codegen.native.embedded_source import embedded_programs
from aiosearch.codegen.native.machine import host
from aiosearch.optimizer.candidates.cpu_kernels import kernel_sources
from aiosearch.optimizer.candidates.schedule_point import KernelSource
from aiosearch.optimizer.effort import BUDGETS, Effort
from aiosearch.pool import usable_cores
from aiosearch.tensor import Program

T = TypeVar("T")

LIMIT = 0.3
"""Of CPU seconds for compiling a candidate."""
KERNELS = BUDGETS[Effort.DEFAULT].kernels
"""Candidates that `optimize` makes, unless it is told otherwise."""


class Costs(Struct, frozen=True):
    """Of the candidates of one program; nothing is remembered from before."""

    row: Row
    first: float
    """Of the first alone, until there is a text: lowering and choosing, once for a program."""
    writing: float
    """Of all together, the first among them."""
    compiling: tuple[float, ...]
    """Of each, to object code."""

    @property
    def each(self) -> list[float]:
        """What a candidate costs, with its share of the writing."""
        share = self.writing / max(len(self.compiling), 1)
        return [share + one for one in self.compiling]


def costs(row: Row, form: Program, most: int = KERNELS) -> Costs:
    """Makes so many candidates at most, best predicted first."""
    _, first = _taken(lambda: _written(row, form, 1))
    found, writing = _taken(lambda: _written(row, form, most))
    return Costs(row, first, writing, tuple(_compiling(one.source) for one in found))


def _written(row: Row, form: Program, most: int) -> list[KernelSource]:
    return kernel_sources(form, host(), usable_cores(), most, row.constant)


def _compiling(source: str) -> float:
    ones = [one for _, one in embedded_programs(source)]
    _, taken = _taken(
        lambda: [compile_program(one.native, one.machine, one.effort) for one in ones]
    )
    return taken


def _taken(work: Callable[[], T]) -> tuple[T, float]:
    """What comes of it, and its CPU seconds."""
    started = time.process_time()
    found = work()
    return found, time.process_time() - started
